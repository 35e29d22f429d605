"""Pipelines over several cards: how much of them stands idle, by stages and micro-batches. Pure."""

from dataclasses import dataclass
from math import ceil

from online.planning.checks import SMALLEST, OutOfRange, counts, positive


@dataclass(frozen=True, slots=True)
class Bubble:
    """A batch cut into micro-batches, through stages of equal time.

    `idle_share` of the time of all stages; `over_ideal` is that idle time over the time of work.
    """

    stages: int
    micro_batches: int
    idle_share: float
    over_ideal: float


def bubble(stages: int, micro_batches: int) -> Bubble:
    """Idle share (p - 1) / (m + p - 1), and (p - 1) / m of the work.

    m micro-batches through p equal stages take m + p - 1 steps, of which each stage works m. The first form is
    GPipe's (Huang et al., arXiv 1811.06965), the second Megatron-LM's (Narayanan et al., arXiv 2104.04473).

    Raises:
        OutOfRange: names the field.
    """
    counts(stages=stages, micro_batches=micro_batches)
    idle = stages - 1
    return Bubble(stages, micro_batches, idle / (micro_batches + idle), idle / micro_batches)


def pipeline_ms(stages: int, micro_batches: int, stage_ms: float) -> float:
    """From the first micro-batch in to the last one out: (m + p - 1) steps."""
    counts(stages=stages, micro_batches=micro_batches)
    positive(stage_ms=stage_ms)
    return (micro_batches + stages - 1) * stage_ms


def least_micro_batches(stages: int, most_idle_share: float) -> int:
    """The fewest micro-batches that keep the idle share at most so high: m >= (p - 1) (1 - s) / s."""
    counts(stages=stages)
    if not SMALLEST <= most_idle_share < 1:
        raise OutOfRange("most_idle_share", most_idle_share, "a share above 0 and below 1")
    return max(1, ceil(round((stages - 1) * (1 - most_idle_share) / most_idle_share, 9)))
