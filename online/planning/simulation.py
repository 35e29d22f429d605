"""The queue of one batching device, simulated event by event: cap, delay window and deadline. Pure, seeded.

Exact but for chance, and chance is told: means carry a confidence interval by batch means.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import inf, nan

import numpy as np
import numpy.typing as npt

from online.planning.batching import BatchMs
from online.planning.checks import OutOfRange, counts, not_negative, positive
from online.planning.intervals import CONFIDENCE, Interval, interval

Milliseconds = npt.NDArray[np.float64]

REQUESTS = 200_000
# Stretches whose means are taken as independent; with 20 to 40 the interval is neither wild nor too narrow.
STRETCHES = 32
# Fewer than these in a stretch, and its mean hangs on how the last one ended.
_BATCHES_A_STRETCH = 30
# What fits in a second or two, and in some hundred megabytes.
_MOST_REQUESTS = 3_000_000
_WARM_UP_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class BatchingRule:
    """When a free device takes its batch.

    Attributes:
        max_batch_rows: None for no cap.
        max_delay_ms: how long an idle device waits for company after the first has come; a device that has just
            finished never waits (as the product's batcher).
        deadline_ms: from arrival to answer. Who would be answered later is dropped when a batch is taken.
    """

    max_batch_rows: int | None = None
    max_delay_ms: float = 0.0
    deadline_ms: float = inf

    def check(self) -> None:
        """Raises OutOfRange."""
        if self.max_batch_rows is not None:
            counts(max_batch_rows=self.max_batch_rows)
        not_negative(max_delay_ms=self.max_delay_ms)
        if not self.deadline_ms > 0:
            raise OutOfRange("deadline_ms", self.deadline_ms, "above 0")


@dataclass(frozen=True, slots=True)
class Queued:
    """By request, in order of arrival: (n,) latency in ms, NaN where it was dropped. By batch: its rows."""

    latency_ms: Milliseconds
    batch_rows: npt.NDArray[np.int64]
    busy_ms: float
    span_ms: float


@dataclass(frozen=True, slots=True)
class Simulated:
    """Latencies of the requests answered; NaN where there was none. `batch_rows` is the mean of a batch.

    `busy_share` of the time a batch ran; `dropped_share` of the requests missed their deadline.
    """

    requests: int
    mean_ms: Interval
    p50_ms: float
    p99_ms: Interval
    batch_rows: float
    busy_share: float
    dropped_share: float


def poisson_ms(rate_per_s: float, requests: int, seed: int) -> Milliseconds:
    """(n,) ascending arrival times of a Poisson stream of which exactly n come in n / rate. Raises OutOfRange.

    Given their number, arrivals of a Poisson stream are spread evenly at random (Ross, "Stochastic Processes",
    2nd edition, theorem 2.3.1), as partial sums of exponential gaps over their total are. So the rate of a run is
    the one asked for: its chance deviations would be most of the error of a mean near saturation.
    """
    positive(rate_per_s=rate_per_s)
    counts(requests=requests)
    ends = np.cumsum(np.random.default_rng(seed).exponential(1.0, requests))
    return ends * float(requests * 1e3 / rate_per_s / ends[-1])


def run(arrivals_ms: Milliseconds, batch_ms: BatchMs, rule: BatchingRule) -> Queued:
    """What one device does with these arrivals, (n,) ascending.

    A loop over batches, since each depends on the end of the last: the only part that is not vectorised.
    """
    rule.check()
    arrivals: list[float] = arrivals_ms.tolist()
    count, cap = len(arrivals), rule.max_batch_rows or len(arrivals)
    delay_ms, deadline_ms = rule.max_delay_ms, rule.deadline_ms
    times: dict[int, float] = {}
    firsts, ends, finishes = [], [], []
    first, free_ms, busy_ms = 0, -inf, 0.0
    while first < count:
        begins_ms = arrivals[first]
        if begins_ms <= free_ms:
            begins_ms = free_ms
        elif delay_ms:
            full = first + cap - 1
            begins_ms = min(begins_ms + delay_ms, arrivals[full] if full < count else inf)
        end = bisect_right(arrivals, begins_ms, first, min(first + cap, count))
        while True:
            rows = end - first
            if rows not in times:
                times[rows] = batch_ms(rows) if rows else 0.0
            if not rows or begins_ms + times[rows] - arrivals[first] <= deadline_ms:
                break
            first += 1
            end = bisect_right(arrivals, begins_ms, first, min(first + cap, count))
        if rows:
            free_ms = begins_ms + times[rows]
            busy_ms += times[rows]
            firsts.append(first)
            ends.append(end)
            finishes.append(free_ms)
        first = end
    return _queued(arrivals_ms, np.array(firsts, np.int64), np.array(ends, np.int64), np.array(finishes), busy_ms)


def _queued(
    arrivals_ms: Milliseconds,
    firsts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    finishes_ms: Milliseconds,
    busy_ms: float,
) -> Queued:
    rows = ends - firsts
    latency_ms = np.full(len(arrivals_ms), nan)
    places = np.repeat(firsts - np.concatenate([[0], np.cumsum(rows)[:-1]]), rows) if len(rows) else firsts
    places = places + np.arange(len(places))
    latency_ms[places] = np.repeat(finishes_ms, rows) - arrivals_ms[places]
    span_ms = float(max(finishes_ms[-1] if len(rows) else 0.0, arrivals_ms[-1]) - arrivals_ms[0])
    return Queued(latency_ms, rows, busy_ms, span_ms)


def simulate(
    rate_per_s: float,
    batch_ms: BatchMs,
    rule: BatchingRule = BatchingRule(),
    *,
    requests: int = REQUESTS,
    seed: int = 1,
    confidence: float = CONFIDENCE,
) -> Simulated:
    """The long run at a steady Poisson rate, from an empty queue; the first twentieth is not counted.

    The interval is by batch means (Law, "Simulation Modeling and Analysis", 5th edition, section 9.5.3): the run
    is cut into 32 stretches, whose means (99th percentiles) are taken as independent. Where batches are so large
    that a run has too few of them, it is made longer than `requests`, up to three million. Saturated, without a
    deadline, there is no long run: the figures are then those of a queue that still grows.

    Raises:
        OutOfRange: names the field. At least 6,400 requests, so that each stretch has a 99th percentile.
    """
    counts(requests=requests)
    if not 200 * STRETCHES <= requests <= _MOST_REQUESTS:
        raise OutOfRange("requests", requests, f"at least {200 * STRETCHES:,}, at most {_MOST_REQUESTS:,}")
    if seed < 0:
        raise OutOfRange("seed", seed, "a whole number from 0 on")
    queued = run(poisson_ms(rate_per_s, requests, seed), batch_ms, rule)
    cap = rule.max_batch_rows
    is_saturated = cap is not None and rate_per_s * batch_ms(cap) >= 1e3 * cap
    while (
        not is_saturated
        and 0 < len(queued.batch_rows) < _BATCHES_A_STRETCH * STRETCHES
        and 4 * requests <= _MOST_REQUESTS
    ):
        requests *= 4
        queued = run(poisson_ms(rate_per_s, requests, seed), batch_ms, rule)
    return summary(queued, confidence)


def summary(queued: Queued, confidence: float = CONFIDENCE) -> Simulated:
    """In numbers, without the warm-up."""
    latency_ms = queued.latency_ms[int(len(queued.latency_ms) * _WARM_UP_SHARE) :]
    answered = latency_ms[~np.isnan(latency_ms)]
    dropped_share = 1 - len(answered) / len(latency_ms)
    busy_share = queued.busy_ms / queued.span_ms if queued.span_ms else 1.0
    batch_rows = float(queued.batch_rows.mean()) if len(queued.batch_rows) else nan
    if len(answered) < 2 * STRETCHES:
        none = Interval(nan, nan)
        return Simulated(len(latency_ms), none, nan, none, batch_rows, busy_share, dropped_share)
    stretches = answered[: len(answered) // STRETCHES * STRETCHES].reshape(STRETCHES, -1)
    p50_ms, p99_ms = np.quantile(answered, [0.5, 0.99])
    by_stretch = interval(np.quantile(stretches, 0.99, axis=1), confidence)
    mean = interval(stretches.mean(axis=1), confidence)
    return Simulated(
        requests=len(latency_ms),
        mean_ms=Interval(float(answered.mean()), mean.half_width),
        p50_ms=float(p50_ms),
        p99_ms=Interval(float(p99_ms), by_stretch.half_width),
        batch_rows=batch_rows,
        busy_share=min(1.0, busy_share),
        dropped_share=dropped_share,
    )
