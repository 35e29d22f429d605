"""Batch and queue arithmetic that gates, site and planner share. Pure; standard library and numpy.

A device takes T(b) = tau0 + alpha * b milliseconds for a batch of b rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2

import numpy as np

# Above it the queue grows much faster than the traffic, and a replica's loss cannot be absorbed.
TARGET_UTILISATION = 0.6
# Larger batches that gain less throughput than this for each doubling mostly cost latency.
LEAST_GAIN = 0.1


@dataclass(frozen=True, slots=True)
class BatchTime:
    """T(b) = tau0_ms + alpha_ms * b, fitted on measured batches."""

    tau0_ms: float
    alpha_ms: float

    def batch_ms(self, rows: int) -> float:
        return self.tau0_ms + self.alpha_ms * rows

    def rows_per_s(self, rows: int) -> float:
        """Throughput when every batch has `rows` rows, b / T(b)."""
        return 1e3 * rows / self.batch_ms(rows)


def fit_batch_time(rows: Sequence[int], batch_ms: Sequence[float]) -> BatchTime:
    """Least squares of relative errors, so that small batches count as much as large ones.

    Args:
        rows, batch_ms: measured batches, at least one; from one size alone all time is taken as fixed.

    Raises:
        ValueError: nothing measured, or a time that is not positive.
    """
    if len(rows) != len(batch_ms) or not rows or min(batch_ms) <= 0 or min(rows) < 1:
        raise ValueError("a fit needs measured batches of at least one row and of positive time")
    if len(set(rows)) == 1:
        return BatchTime(float(np.mean(batch_ms)), 0.0)
    times = np.asarray(batch_ms, dtype=np.float64)
    matrix = np.column_stack([np.ones(len(rows)), np.asarray(rows, dtype=np.float64)]) / times[:, None]
    (tau0, alpha), *_ = np.linalg.lstsq(matrix, np.ones(len(rows)), rcond=None)
    if alpha < 0:
        return BatchTime(float(times.mean()), 0.0)
    if tau0 < 0:
        return BatchTime(0.0, float(np.mean(times / np.asarray(rows, dtype=np.float64))))
    return BatchTime(float(tau0), float(alpha))


def relative_errors(time: BatchTime, rows: Sequence[int], batch_ms: Sequence[float]) -> list[float]:
    """(fitted - measured) / measured at each measured batch; 0.05 is a fit that says 5 % too much."""
    return [time.batch_ms(b) / ms - 1 for b, ms in zip(rows, batch_ms, strict=True)]


def doubling_gains(rows: Sequence[int], batch_ms: Sequence[float]) -> list[float | None]:
    """What doubling each measured batch gains in throughput b / T(b), as a share; None for the largest.

    The batch of b rows is compared with the largest measured one of at most 2 b rows, or else with the next
    larger. Where that is not 2 b, the gain is scaled to a doubling as if throughput were a power of b in
    between, so that sizes measured closely together do not look flat.

    Args:
        rows, batch_ms: measured batches, rows ascending and distinct.

    Raises:
        ValueError: rows that do not ascend, or a time that is not positive.
    """
    if len(rows) != len(batch_ms) or min(batch_ms, default=1.0) <= 0 or min(rows, default=1) < 1:
        raise ValueError("gains need measured batches of at least one row and of positive time")
    if any(later <= earlier for earlier, later in pairwise(rows)):
        raise ValueError("gains need batch sizes that ascend")
    rates = [b / ms for b, ms in zip(rows, batch_ms, strict=True)]
    gains: list[float | None] = []
    for place, b in enumerate(rows[:-1]):
        within = sum(other <= 2 * b for other in rows) - 1
        other = max(place + 1, within)
        gains.append(float((rates[other] / rates[place]) ** (1 / log2(rows[other] / b)) - 1))
    return [*gains, None] if rows else []


def knee_rows(rows: Sequence[int], batch_ms: Sequence[float], least_gain: float = LEAST_GAIN) -> int | None:
    """The smallest measured batch whose doubling gains less than `least_gain` throughput (`doubling_gains`).

    None where each measured doubling gains at least that: throughput still grows at the largest batch.

    Raises:
        ValueError: as `doubling_gains`.
    """
    gains = zip(rows, doubling_gains(rows, batch_ms), strict=True)
    return next((b for b, gain in gains if gain is not None and gain < least_gain), None)


def mean_batch_rows(time: BatchTime, rate_per_s: float, max_batch_rows: int | None = None) -> float:
    """Rows of a batch at a steady rate, the b with b = rate * T(b): at least 1, at most the cap.

    Infinite without a cap where the rows of a second take longer than a second, rate * alpha >= 1.
    """
    most = float("inf") if max_batch_rows is None else float(max_batch_rows)
    rate_per_ms = rate_per_s / 1e3
    load = rate_per_ms * time.alpha_ms
    if load >= 1:
        return most
    return min(most, max(1.0, rate_per_ms * time.tau0_ms / (1 - load)))


def steady_batch_rows(time: BatchTime, rate_per_s: float, max_batch_rows: int) -> int:
    """`mean_batch_rows` as a whole number."""
    return round(mean_batch_rows(time, rate_per_s, max_batch_rows))


def fitting_rows(time: BatchTime, max_batch_rows: int, max_batch_ms: float) -> int:
    """The largest batch that takes at most `max_batch_ms`, up to the cap; one row where none does."""
    if time.alpha_ms <= 0:
        return max_batch_rows
    return max(1, min(max_batch_rows, int((max_batch_ms - time.tau0_ms) / time.alpha_ms)))


def replica_rows_per_s(
    time: BatchTime, max_batch_rows: int, max_batch_ms: float, utilisation: float = TARGET_UTILISATION
) -> float:
    """What one replica may be given: throughput of the largest batch within `max_batch_ms`, times utilisation."""
    return utilisation * time.rows_per_s(fitting_rows(time, max_batch_rows, max_batch_ms))


def replicas_needed(peak_rows_per_s: float, per_replica_rows_per_s: float) -> int:
    """Replicas for the peak minute's live rows: none for no traffic, else at least one."""
    if per_replica_rows_per_s <= 0:
        raise ValueError("a replica that serves nothing cannot be counted")
    return ceil(peak_rows_per_s / per_replica_rows_per_s) if peak_rows_per_s > 0 else 0


@dataclass(frozen=True, slots=True)
class SizedFleet:
    """Replicas for a peak, and the batches that it then makes on each.

    Attributes:
        load: replicas before rounding up.
        each_per_s: rows a second of one replica, 0 without replicas.
        batch_rows: of a batch at the peak, as `mean_batch_rows` says; `batch_ms` is T of it.
        row_ms: time of the device for one row in such a batch: the fewer come together, the dearer is each.
        largest_rows: of the batch that fits the time allowed, which bounds `per_replica_per_s`.
    """

    replicas: int
    load: float
    each_per_s: float
    batch_rows: float
    batch_ms: float
    row_ms: float
    largest_rows: int
    per_replica_per_s: float


def size_fleet(
    time: BatchTime,
    max_batch_rows: int,
    peak_rows_per_s: float,
    max_batch_ms: float,
    utilisation: float = TARGET_UTILISATION,
) -> SizedFleet:
    """The fewest replicas on which batches stay within `max_batch_ms` when the peak over `utilisation` comes.

    A device that takes all that waits settles at batches of b = r T(b) rows for r rows a second, so T(b) stays
    within the time exactly while r is at most B / T(B), B being the largest batch that does: replicas are the peak
    over `utilisation` times that. At the peak itself batches are smaller, and smaller still with few rows.

    Args:
        peak_rows_per_s: rows a second of the busiest minute.

    Source: the steady batch is Little's law on one batch, as if all batches were equal (`mean_batch_rows`).
    """
    per_replica = replica_rows_per_s(time, max_batch_rows, max_batch_ms, utilisation)
    replicas = replicas_needed(peak_rows_per_s, per_replica)
    each = peak_rows_per_s / replicas if replicas else 0.0
    rows = mean_batch_rows(time, each, max_batch_rows)
    batch_ms = time.tau0_ms + time.alpha_ms * rows
    return SizedFleet(
        replicas=replicas,
        load=peak_rows_per_s / per_replica,
        each_per_s=each,
        batch_rows=rows,
        batch_ms=batch_ms,
        row_ms=batch_ms / rows,
        largest_rows=fitting_rows(time, max_batch_rows, max_batch_ms),
        per_replica_per_s=per_replica,
    )
