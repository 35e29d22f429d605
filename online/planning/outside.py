"""What an answer takes outside queue and device: the API, the wire, the network. Pure."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from online.planning.checks import not_negative
from online.planning.device_queue import Milliseconds

Rows = npt.NDArray[np.int64]

# The slowest, which stalls of the machine fall into: much of a mean, and nothing that the next run would repeat.
_SLOWEST_SHARE = 0.05
# From batches that are closer together than this, what each row adds cannot be told from noise.
_LEAST_ROWS_APART = 4
_LEAST_ANSWERS = 30


@dataclass(frozen=True, slots=True)
class Outside:
    """Milliseconds of an answer: `fixed_ms`, and `row_ms` for each row of its batch.

    Answers of a batch come out of the device together, and then one after another: one event loop in the worker
    and one in the API frame, read and write them. The larger the batch, the more of the others' each waits for.
    Both are measured, on the tier or from its log (`fit_outside`).
    """

    fixed_ms: float = 0.0
    row_ms: float = 0.0

    def __post_init__(self) -> None:
        not_negative(outside_ms=self.fixed_ms, outside_row_ms=self.row_ms)

    def mean_ms(self, batch_rows: float) -> float:
        """Of an answer in a batch of so many rows."""
        return self.fixed_ms + self.row_ms * batch_rows

    def later(self, more_ms: float) -> "Outside":
        """With so much more for every answer."""
        return replace(self, fixed_ms=self.fixed_ms + more_ms)


NOTHING = Outside()


def fit_outside(outside_ms: Milliseconds, batch_rows: Rows, answers: Rows | None = None) -> Outside:
    """From measured answers: what each row of a batch adds, and what is left without that.

    The slope is that of a resistant line (Tukey, "Exploratory Data Analysis", 1977, chapter 10): between the
    third with the smallest batches and the third with the largest, so that few stalls do not bend it; 0 where
    batches hardly differ. What is left is a mean. Each mean is without its slowest twentieth.

    Args:
        outside_ms, batch_rows: (n,) of an answer, at least one; the rows of the batch that it was in.
        answers: (n,) how many were so; None for one each.
    """
    weights = np.ones(len(outside_ms), np.int64) if answers is None else answers
    row_ms = _row_ms(outside_ms, batch_rows, weights)
    rest_ms = outside_ms - row_ms * batch_rows
    is_kept = rest_ms <= _quantile(rest_ms, weights, 1 - _SLOWEST_SHARE)
    return Outside(max(0.0, float(np.average(rest_ms[is_kept], weights=weights[is_kept]))), row_ms)


def _row_ms(outside_ms: Milliseconds, batch_rows: Rows, weights: Rows) -> float:
    rows = batch_rows.astype(np.float64)
    low, high = (_quantile(rows, weights, share) for share in (1 / 3, 2 / 3))
    is_small = _nearest_third(weights, rows <= low, rows < low)
    is_large = _nearest_third(weights, rows >= high, rows > high) & ~is_small
    if min(weights[is_small].sum(), weights[is_large].sum()) < _LEAST_ANSWERS:
        return 0.0
    small, large = (_centre(rows[which], outside_ms[which], weights[which]) for which in (is_small, is_large))
    if large[0] - small[0] < _LEAST_ROWS_APART:
        return 0.0
    return max(0.0, (large[1] - small[1]) / (large[0] - small[0]))


def _centre(rows: Milliseconds, outside_ms: Milliseconds, weights: Rows) -> tuple[float, float]:
    """Mean rows and mean time of the quicker ones."""
    is_kept = outside_ms <= _quantile(outside_ms, weights, 1 - _SLOWEST_SHARE)
    kept = weights[is_kept]
    return float(np.average(rows[is_kept], weights=kept)), float(np.average(outside_ms[is_kept], weights=kept))


def _nearest_third(weights: Rows, *choices: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Where batches come in few sizes, none may be a third of all answers."""
    return min(choices, key=lambda which: abs(weights[which].sum() / weights.sum() - 1 / 3))


def _quantile(values: Milliseconds, weights: Rows, share: float = 0.5) -> float:
    """The value that `share` of the weight is at most."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(ends, share * ends[-1])])
