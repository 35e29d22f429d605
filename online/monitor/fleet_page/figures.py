"""The Fleet page's figures of the log: the busiest minutes of each step, and the fleets for these. Pure."""

from dataclasses import dataclass

from online.monitor.fleet import FleetEstimate
from online.monitor.overview.peaks import is_tail, needs_answer, peaks_by_step
from online.monitor.requestlog.counts import Counts
from online.monitor.windows import Window
from schemas.capacity import size_fleet


@dataclass(frozen=True, slots=True)
class Step:
    """Requests a second of the step's busiest minutes; replicas are None where no T(b) is known."""

    all_per_s: float
    tail_per_s: float
    without: int | None = None
    with_precomputing: int | None = None


def steps(counts: Counts, window: Window, estimate: FleetEstimate | None) -> list[Step]:
    """One for each step of the window."""
    peaks = zip(peaks_by_step(counts, window, needs_answer), peaks_by_step(counts, window, is_tail), strict=True)
    return [_step(every / 60, tail / 60, estimate) for every, tail in peaks]


def _step(all_per_s: float, tail_per_s: float, estimate: FleetEstimate | None) -> Step:
    if estimate is None:
        return Step(all_per_s, tail_per_s)
    replica, most_ms = estimate.replica, estimate.max_batch_ms
    without, needed = (
        size_fleet(replica.time, replica.max_batch_rows, rate, most_ms).replicas
        for rate in (all_per_s, tail_per_s)
    )
    return Step(all_per_s, tail_per_s, without, needed)
