"""Look-ups without and during a throttled load, in many short turns of one run.

What else a machine does comes and goes within seconds. One long window beside another mostly compares that; many
short ones in turns get the same share of it, and how much they differ among themselves says how sure the ratio is.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from redis import Redis

from tests.bench.load.summary import Latencies
from tests.bench.loading.lookups import Asked, Lookups
from tests.bench.loading.plan import Plan
from tests.bench.scoring.night import Begun, StepFailed, publish, verify

Milliseconds = npt.NDArray[np.float64]
# What a load leaves behind, such as connections that end, is not counted as quiet.
_SETTLE_S = 0.2
_RESAMPLED = 1000
# Of the resampled ratios, those outside of it are as many on each side.
_INTERVAL = (0.05, 0.95)
_LOGGED_US, _LOGGED = 200, 1024


class Turn(NamedTuple):
    """When the quiet before a load began, when it ended, and when the load did; by `time.perf_counter`."""

    quiet_s: float
    loading_s: float
    ended_s: float


@dataclass(frozen=True)
class Turns:
    """What look-ups took.

    Attributes:
        before, during: (n,) latencies of each turn's good answers.
        loaded_per_s: entities a second of the loads, from the begin of publish to the end of verify.
        longest_ms: what the server took for its slowest command during all of them.
    """

    before: Sequence[Milliseconds]
    during: Sequence[Milliseconds]
    errors: int
    wrong: int
    late_p99_ms: float
    loaded_per_s: float
    longest_ms: float = 0.0

    @property
    def latency_before(self) -> Latencies:
        return Latencies.of(np.concatenate(self.before))

    @property
    def latency_during(self) -> Latencies:
        return Latencies.of(np.concatenate(self.during))

    @property
    def ratio(self) -> float:
        """p99 of all look-ups during a load over that of all others."""
        return self.latency_during.p99_ms / self.latency_before.p99_ms

    @property
    def median_ratio(self) -> float:
        """Of the turns' own ratios, which one stall of the machine hardly moves."""
        own = [_p99(self.during, [turn]) / _p99(self.before, [turn]) for turn in range(len(self.before))]
        return float(np.median(own))

    def interval(self, seed: int = 1) -> tuple[float, float]:
        """Of the ratio, 90 %, by drawing as many turns again with replacement.

        Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), percentile intervals. By whole
        turns, since latencies of one moment depend on each other.
        """
        draw = np.random.default_rng(seed)
        drawn = draw.integers(0, len(self.before), size=(_RESAMPLED, len(self.before)))
        ratios = [_p99(self.during, turns) / _p99(self.before, turns) for turns in drawn.tolist()]
        low, high = np.quantile(ratios, _INTERVAL)
        return float(low), float(high)


def measure_turns(lookups: Lookups, redis: "Redis[bytes]", other: Begun, plan: Plan, seed: int) -> Turns:
    """Look-ups for `plan.lookup_s`, while the other generation is published and verified again and again.

    Raises:
        StepFailed: a step did not end well, or none within that time.
    """
    said: list[Asked] = []
    # Spark's session is of this thread.
    asking = threading.Thread(target=lambda: said.append(lookups.ask(plan.lookup_s, seed)))
    redis.config_set("slowlog-log-slower-than", _LOGGED_US)
    redis.config_set("slowlog-max-len", _LOGGED)
    redis.slowlog_reset()
    asking.start()
    time.sleep(plan.warm_s)
    turns = []
    while asking.is_alive():
        turns.append(_turn(other, plan.quiet_s))
    asking.join()
    longest_ms = max((one["duration"] / 1e3 for one in redis.slowlog_get(_LOGGED)), default=0.0)
    found = turns_of(said[0], turns, other.rows)
    if not found.before:
        raise StepFailed(f"no load of {other.rows} entities ended within {plan.lookup_s:g} s of look-ups")
    return replace(found, longest_ms=longest_ms)


def _turn(other: Begun, quiet_s: float) -> Turn:
    time.sleep(_SETTLE_S)
    began_s = time.perf_counter()
    time.sleep(quiet_s)
    loading_s = time.perf_counter()
    other.forget("publish", "verify")
    publish(other)
    verify(other)
    return Turn(began_s, loading_s, time.perf_counter())


def turns_of(asked: Asked, turns: Sequence[Turn], rows: int) -> Turns:
    """By turn, what was due in its two windows; a turn that look-ups did not go on through does not count."""
    whole = [turn for turn in turns if len(asked.due_s) and turn.ended_s <= asked.due_s[-1]]
    spent_s = sum(turn.ended_s - turn.loading_s for turn in whole)
    return Turns(
        before=[_within(asked, turn.quiet_s, turn.loading_s) for turn in whole],
        during=[_within(asked, turn.loading_s, turn.ended_s) for turn in whole],
        errors=asked.errors,
        wrong=asked.wrong,
        late_p99_ms=asked.late_p99_ms,
        loaded_per_s=rows * len(whole) / spent_s if whole else np.nan,
    )


def _within(asked: Asked, begin_s: float, end_s: float) -> Milliseconds:
    first, past = np.searchsorted(asked.due_s, [begin_s, end_s])
    found = asked.latency_ms[first:past]
    return found[~np.isnan(found)]


def _p99(latencies: Sequence[Milliseconds], turns: Sequence[int]) -> float:
    return float(np.quantile(np.concatenate([latencies[turn] for turn in turns]), 0.99))
