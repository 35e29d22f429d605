"""Batch arithmetic: the fit of T(b) with intervals, and the latency of a device that takes all that waits. Pure.

Requests come as a Poisson stream; the moment the device is free it takes everything that waits as one batch.
The exact figures are simulated (`simulation.py`); what is here are the formulas they stand beside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from online.planning.checks import OutOfRange, counts, not_negative, positive
from online.planning.intervals import CONFIDENCE, Interval, student_t
from schemas.capacity import LEAST_GAIN, BatchTime, fit_batch_time, mean_batch_rows, relative_errors

# A straight line that is further off than this at a measured size is not to be planned with.
LINEAR_WITHIN = 0.1
LEAST_SIZES = 4

BatchMs = Callable[[int], float]


@dataclass(frozen=True, slots=True)
class Fit:
    """The line through measured batches, with 95 % intervals. `worst_error` is relative, at `worst_rows`."""

    time: BatchTime
    tau0_ms: Interval
    alpha_ms: Interval
    worst_error: float
    worst_rows: int

    @property
    def is_linear(self) -> bool:
        return abs(self.worst_error) <= LINEAR_WITHIN


def checked_time(tau0_ms: float, alpha_ms: float) -> BatchTime:
    """T(b) from its two numbers, in ms and ms a row. Raises OutOfRange."""
    not_negative(tau0_ms=tau0_ms, alpha_ms=alpha_ms)
    positive(**{name: ms for name, ms in (("tau0_ms", tau0_ms), ("alpha_ms", alpha_ms)) if ms})
    if tau0_ms + alpha_ms <= 0:
        raise OutOfRange("tau0_ms", tau0_ms, "above 0 where alpha_ms is 0: a batch takes time")
    return BatchTime(tau0_ms, alpha_ms)


def fit(rows: Sequence[int], batch_ms: Sequence[float]) -> Fit:
    """tau0 and alpha with intervals, from at least four measured sizes.

    Least squares of relative errors (`schemas.capacity.fit_batch_time`). Intervals are those of weighted linear
    regression, t times the square root of s² (X'X)⁻¹ with n - 2 degrees of freedom (Draper and Smith, "Applied
    Regression Analysis", 3rd edition, section 9.2): they tell scatter about the line, not whether it is a line.

    Raises:
        OutOfRange: under four different sizes, or what is no measured batch.
    """
    counts(**{f"rows[{place}]": size for place, size in enumerate(rows)})
    positive(**{f"batch_ms[{place}]": ms for place, ms in enumerate(batch_ms)})
    if len(rows) != len(batch_ms):
        raise OutOfRange("batch_ms", f"{len(batch_ms)} times", f"one for each of the {len(rows)} sizes")
    if len(set(rows)) < LEAST_SIZES:
        raise OutOfRange("rows", sorted(set(rows)), f"at least {LEAST_SIZES} different batch sizes")
    time = fit_batch_time(rows, batch_ms)
    errors = relative_errors(time, rows, batch_ms)
    measured = np.asarray(batch_ms, dtype=np.float64)
    weighted = np.column_stack([1 / measured, np.asarray(rows) / measured])
    variance = sum(error * error for error in errors) / (len(rows) - 2)
    spread = np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted)) * variance)
    width = student_t(CONFIDENCE, len(rows) - 2) * spread
    worst = max(range(len(rows)), key=lambda place: abs(errors[place]))
    return Fit(
        time,
        Interval(time.tau0_ms, float(width[0])),
        Interval(time.alpha_ms, float(width[1])),
        errors[worst],
        rows[worst],
    )


@dataclass(frozen=True)
class MeasuredMs:
    """T(b) straight between measured sizes, for a device that no line fits; flat below the smallest.

    Beyond the largest size T grows in proportion to b, which is never too fast for a device. Sizes ascend.
    """

    rows: tuple[int, ...]
    batch_ms: tuple[float, ...]

    def __call__(self, size: int) -> float:
        if size > self.rows[-1]:
            return self.batch_ms[-1] * size / self.rows[-1]
        return float(np.interp(size, self.rows, self.batch_ms))


def line_knee_rows(time: BatchTime, least_gain: float = LEAST_GAIN) -> int:
    """The smallest batch whose doubling gains less than `least_gain` throughput b / T(b), on the line itself.

    X(2b) / X(b) = 2 (tau0 + alpha b) / (tau0 + 2 alpha b) < 1 + g exactly where b > (1 - g) tau0 / (2 g alpha).

    Raises:
        OutOfRange: a gain outside 0 to 1 (both excluded), or a device without a time for each row: no knee.
    """
    if not 0 < least_gain < 1:
        raise OutOfRange("least_gain", least_gain, "a share above 0 and below 1")
    positive(alpha_ms=time.alpha_ms)
    return max(1, ceil((1 - least_gain) * time.tau0_ms / (2 * least_gain * time.alpha_ms)))


def saturation_per_s(time: BatchTime, max_batch_rows: int | None = None) -> float:
    """Rows a second beyond which the queue grows without end: 1 / alpha without a cap, cap / T(cap) with one."""
    if max_batch_rows is not None:
        counts(max_batch_rows=max_batch_rows)
        return time.rows_per_s(max_batch_rows)
    return 1e3 / time.alpha_ms if time.alpha_ms > 0 else inf


def check_rate(time: BatchTime, rate_per_s: float, max_batch_rows: int | None = None) -> None:
    """Raises OutOfRange for a rate that is no rate, or that the device cannot keep up with."""
    not_negative(rate_per_s=rate_per_s)
    if rate_per_s >= (most := saturation_per_s(time, max_batch_rows)):
        raise OutOfRange(
            "rate_per_s", f"{rate_per_s:g}", f"from 0 to below {most:.6g}, where the device saturates"
        )


@dataclass(frozen=True, slots=True)
class Textbook:
    """The estimate by the steady batch: `mean_ms` half a batch of waiting, then one; `tail_ms` two batches."""

    batch_rows: float
    batch_ms: float
    mean_ms: float
    tail_ms: float


def textbook(time: BatchTime, rate_per_s: float, max_batch_rows: int | None = None) -> Textbook:
    """Latency as if every batch were the steady one, b = rate T(b) = rate tau0 / (1 - rate alpha), at least 1.

    A request comes at a random moment of a running batch, so it waits half of T(b), at most all of it, and is then
    in a batch itself: 1.5 T(b) and 2 T(b). Optimistic under load, since batches vary and long ones hold more
    requests; pessimistic at little load, where nobody waits and the mean is T(1).

    Source: Little's law on one batch, and the renewal argument as if all batches were equal; commonly taught.
    """
    check_rate(time, rate_per_s, max_batch_rows)
    rows = mean_batch_rows(time, rate_per_s, max_batch_rows)
    batch_ms = time.tau0_ms + time.alpha_ms * rows
    return Textbook(rows, batch_ms, 1.5 * batch_ms, 2 * batch_ms)


def inoue_bound_ms(time: BatchTime, rate_per_s: float) -> float:
    """Upper bound of the mean latency, for Poisson arrivals, no cap and no delay: min(phi0, phi1).

    With l the rate in rows a ms:
    phi0 = (alpha + tau0) / (2 (1 - l alpha)) * [1 + 2 l tau0 + (1 - l tau0) / (1 + l alpha)]
    phi1 = 3/2 tau0 / (1 - l alpha) + alpha/2 (l alpha + 2) / (1 - l² alpha²)

    Source: Y. Inoue, "Queueing analysis of GPU-based inference servers with dynamic batching", arXiv 1912.06322.

    Raises:
        OutOfRange: l alpha is not below 1.
    """
    check_rate(time, rate_per_s)
    tau0, alpha, rate = time.tau0_ms, time.alpha_ms, rate_per_s / 1e3
    load = rate * alpha
    phi0 = (alpha + tau0) / (2 * (1 - load)) * (1 + 2 * rate * tau0 + (1 - rate * tau0) / (1 + load))
    phi1 = 1.5 * tau0 / (1 - load) + alpha / 2 * (load + 2) / (1 - load * load)
    return min(phi0, phi1)


def utilisation(time: BatchTime, rate_per_s: float, max_batch_rows: int) -> float:
    """Share of what the device can give with full batches, rate T(cap) / cap; not the share of time it is busy."""
    not_negative(rate_per_s=rate_per_s)
    return rate_per_s / saturation_per_s(time, max_batch_rows)
