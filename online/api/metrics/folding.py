"""Columns of the request log's buffer as numbers, and histograms that take a second's worth of them at once. Pure
but for the histogram itself."""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from prometheus_client import Histogram

from online.api.requestlog.columns import Numbers, Same

Float64Array = npt.NDArray[np.float64]


class FoldedHistogram(Histogram):
    """Takes many observations at once: one by one they would cost more than the requests."""

    def fold(self, values: Float64Array) -> None:
        """`values`: (n,), not NaN."""
        places = np.searchsorted(self._upper_bounds, values)
        for place, count in enumerate(np.bincount(places).tolist()):
            if count:
                self._buckets[place].inc(count)
        self._sum.inc(float(values.sum()))


def numbers(values: Sequence[object]) -> Float64Array | None:
    """(n,) float64 with NaN for None; None where there is no number at all, as in most columns of hits."""
    if isinstance(values, Numbers):
        return values.array.astype(np.float64)
    if isinstance(values, Same):
        return None if values.value is None else np.full(len(values), values.value, dtype=np.float64)
    if values.count(None) == len(values):
        return None
    return np.array(values, dtype=np.float64)


def tally(values: Sequence[object]) -> Tally[object]:
    """Of what is not None."""
    return Tally() if values.count(None) == len(values) else Tally(value for value in values if value is not None)


def counts_of(*columns: Sequence[object]) -> Iterable[tuple[tuple[object, ...], int]]:
    """How often each combination is there; quick where there is but one."""
    first = tuple(column[0] for column in columns)
    if all(column.count(value) == len(column) for column, value in zip(columns, first, strict=True)):
        return [(first, len(columns[0]))]
    return Tally(zip(*columns, strict=True)).items()


def by_value(values: Sequence[object]) -> Iterator[tuple[object, npt.NDArray[np.int64] | None]]:
    """Each distinct value with the places that have it; None for all of them: most seconds have hits alone."""
    first = values[0]
    if values.count(first) == len(values):
        yield first, None
        return
    places: dict[object, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    for value, mine in places.items():
        yield value, np.array(mine)


def picked(values: Float64Array, places: npt.NDArray[np.int64] | None) -> Float64Array:
    """The numbers at these places, without NaN."""
    mine = values if places is None else values[places]
    known: Float64Array = mine[~np.isnan(mine)]
    return known
