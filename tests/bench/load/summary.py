"""A run of load in numbers. Latency counts from when a request was due, so no queue hides behind a late send."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.bench.load.arrivals import Seconds

Milliseconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Latencies:
    """Of answers: mean, median and 99th percentile in ms; NaN where there is none."""

    count: int
    mean_ms: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, latency_ms: Milliseconds) -> "Latencies":
        if not len(latency_ms):
            return cls(0, np.nan, np.nan, np.nan)
        p50_ms, p99_ms = np.quantile(latency_ms, [0.5, 0.99])
        return cls(len(latency_ms), float(latency_ms.mean()), float(p50_ms), float(p99_ms))


def late_p99_ms(due_s: Seconds, sent_s: Seconds) -> float:
    """How late the generator sent; a request that was never sent counts as sent at infinity."""
    return float(np.quantile(1e3 * (sent_s - due_s), 0.99, method="higher"))


def seconds_to_recovery(due_s: Seconds, latency_ms: Milliseconds, normal_ms: float, in_a_row: int = 10) -> float:
    """From time 0 to the first of `in_a_row` consecutive probes that are all under `normal_ms`.

    Args:
        due_s, latency_ms: (n,) each, in order; inf for a probe that was not answered well.

    Returns:
        inf where it never got there.
    """
    good = np.concatenate([[0], np.cumsum(latency_ms < normal_ms)])
    runs = np.flatnonzero(good[in_a_row:] - good[:-in_a_row] == in_a_row) if len(good) > in_a_row else []
    return float(due_s[runs[0]]) if len(runs) else np.inf
