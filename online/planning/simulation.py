"""The long run of one batching device's queue (`device_queue.py`) at a steady Poisson rate. Pure, seeded.

Exact but for chance, and chance is told: means carry a confidence interval by batch means.
"""

from dataclasses import dataclass
from math import ceil, nan

import numpy as np

from online.planning.batching import BatchMs
from online.planning.checks import OutOfRange, counts, positive
from online.planning.device_queue import TAKE_ALL, BatchingRule, Milliseconds, Queued, run
from online.planning.intervals import CONFIDENCE, Interval, interval
from online.planning.outside import NOTHING, Outside

REQUESTS = 200_000
# Stretches whose means are taken as independent; with 20 to 40 the interval is neither wild nor too narrow.
STRETCHES = 32
# Fewer than 30 in a stretch, and its mean hangs on how the last one ended.
_BATCHES = 30 * STRETCHES
# A longer run has larger batches: it has seen more of the worst.
_SPARE = 1.2
# What fits in a second or two, and in some hundred megabytes.
_MOST_REQUESTS = 3_000_000
_WARM_UP_SHARE = 0.05


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


def simulate(
    rate_per_s: float,
    batch_ms: BatchMs,
    rule: BatchingRule = TAKE_ALL,
    outside: Outside = NOTHING,
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

    Args:
        rule: its deadline is of queue and device, without what is outside.
        outside: is part of each latency.

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
    while not is_saturated and 0 < (batches := len(queued.batch_rows)) < _BATCHES and requests < _MOST_REQUESTS:
        requests = min(_MOST_REQUESTS, ceil(_SPARE * requests * _BATCHES / batches))
        queued = run(poisson_ms(rate_per_s, requests, seed), batch_ms, rule)
    return summary(queued, outside, confidence)


def summary(queued: Queued, outside: Outside = NOTHING, confidence: float = CONFIDENCE) -> Simulated:
    """In numbers, without the warm-up."""
    latency_ms = queued.latency_ms + (outside.fixed_ms + outside.row_ms * queued.rows)
    latency_ms = latency_ms[int(len(latency_ms) * _WARM_UP_SHARE) :]
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
