"""Batch and queue arithmetic that gates, site and planner share. Pure; standard library and numpy.

A device takes T(b) = tau0 + alpha * b milliseconds for a batch of b rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

# Above it the queue grows much faster than the traffic, and a replica's loss cannot be absorbed.
TARGET_UTILISATION = 0.6


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


def steady_batch_rows(time: BatchTime, rate_per_s: float, max_batch_rows: int) -> int:
    """Rows of a batch at a steady rate, the b with b = rate * T(b): at least 1, at most the cap."""
    rate_per_ms = rate_per_s / 1e3
    load = rate_per_ms * time.alpha_ms
    if load >= 1:
        return max_batch_rows
    return int(min(max_batch_rows, max(1, round(rate_per_ms * time.tau0_ms / (1 - load)))))


def replica_rows_per_s(
    time: BatchTime, max_batch_rows: int, max_batch_ms: float, utilisation: float = TARGET_UTILISATION
) -> float:
    """What one replica may be given: throughput of the largest batch within `max_batch_ms`, times utilisation."""
    fitting = max_batch_rows
    if time.alpha_ms > 0:
        fitting = min(max_batch_rows, int((max_batch_ms - time.tau0_ms) / time.alpha_ms))
    return utilisation * time.rows_per_s(max(1, fitting))


def replicas_needed(peak_rows_per_s: float, per_replica_rows_per_s: float) -> int:
    """Replicas for the peak minute's live rows: none for no traffic, else at least one."""
    if per_replica_rows_per_s <= 0:
        raise ValueError("a replica that serves nothing cannot be counted")
    return ceil(peak_rows_per_s / per_replica_rows_per_s) if peak_rows_per_s > 0 else 0
