"""Rows of the request log as arrays, and their durations as histograms. Pure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, nan
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from online.planning.outside import Outside, fit_outside
from schemas.arrow import REQUEST_LOG
from schemas.http import Source

COUNTED = pa.schema(
    [
        REQUEST_LOG.field(name)
        for name in (
            "time",
            "entity",
            "source",
            "status",
            "total_us",
            "queue_us",
            "batch_us",
            "execute_us",
            "batch_rows",
        )
    ]
)
_MINUTE_US = 60_000_000
_BINS_PER_E = 100


@dataclass
class Durations:
    """A histogram of microseconds in bins 1 % wide, so that a month of them takes a few kilobytes."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, us: npt.NDArray[np.float64]) -> None:
        bins, times = np.unique(np.floor(np.log(np.maximum(us, 1)) * _BINS_PER_E).astype(int), return_counts=True)
        self.counts.update(dict(zip(bins.tolist(), times.tolist(), strict=True)))

    def quantile_ms(self, share: float) -> float:
        """By nearest rank, to half a per cent; NaN where there is none."""
        total, reached = sum(self.counts.values()), 0
        for number in sorted(self.counts):
            reached += self.counts[number]
            if reached >= share * total:
                return duration_ms(number)
        return nan


@dataclass
class TimesByRows:
    """Of live answers, by the rows of their batch."""

    by_rows: dict[int, Durations] = field(default_factory=dict)

    def add(self, us: npt.NDArray[np.float64], batch_rows: npt.NDArray[np.int64]) -> None:
        for rows in np.unique(batch_rows).tolist():
            self.by_rows.setdefault(rows, Durations()).add(us[batch_rows == rows])

    def outside(self) -> Outside | None:
        """Of what is not queue, batch and device; None without any live answer."""
        found = [
            (duration_ms(number), rows, count)
            for rows, times in self.by_rows.items()
            for number, count in times.counts.items()
        ]
        if not found:
            return None
        outside_ms, rows, counts = (np.array(column) for column in zip(*found, strict=True))
        return fit_outside(outside_ms, rows, counts)

    def over(self, batch_ms: Callable[[int], float]) -> float:
        """Of what is on the device: how much longer than T(b) the medians were, as a share, over all answers.

        NaN without any live answer.
        """
        answers = {rows: sum(times.counts.values()) for rows, times in self.by_rows.items()}
        more = {rows: times.quantile_ms(0.5) / batch_ms(rows) - 1 for rows, times in self.by_rows.items()}
        return sum(more[rows] * answers[rows] for rows in more) / sum(answers.values()) if more else nan


def duration_ms(number: int) -> float:
    """The middle of a bin."""
    return exp((number + 0.5) / _BINS_PER_E) / 1e3


class LogRows:
    """Columns of one table as arrays; rows without a time, or refused with 4xx, are in no kind."""

    def __init__(self, table: pa.Table, hot: pa.Array | None) -> None:
        has_time = table["time"].is_valid()
        self.without_time = table.num_rows - int(pc.sum(has_time).as_py() or 0)
        table = table.filter(has_time)
        source = np.array(table["source"].fill_null("").to_numpy(zero_copy_only=False), dtype=object)
        status = table["status"].fill_null(0).to_numpy()
        self.minutes = table["time"].cast(pa.int64()).to_numpy() // _MINUTE_US
        self.is_imported = (source == "") & (status == 200)
        is_refused = (source == "") & (status >= 400) & (status <= 499)
        self.is_own = ~self.is_imported & ~is_refused
        self.is_cached = source == Source.CACHED.value
        is_precomputed = source == Source.PRECOMPUTED.value
        self.is_hot = is_precomputed if hot is None else _is_in(table["entity"], hot)
        self.is_hit = is_precomputed | self.is_cached
        self.is_live = source == Source.LIVE.value
        self.total_us = table["total_us"].fill_null(0).to_numpy().astype(np.float64)
        inside = [table[f"{stage}_us"].to_numpy(zero_copy_only=False) for stage in ("queue", "batch", "execute")]
        # An answer that does not say how many shared its batch had it for itself, as far as is known.
        self.has_rows = table["batch_rows"].is_valid().to_numpy()
        self.batch_rows = table["batch_rows"].fill_null(1).to_numpy().astype(np.int64)
        queue_us, *on_device_us = (part.astype(np.float64) for part in inside)
        self.on_device_us = np.asarray(sum(on_device_us))
        self.outside_us = self.total_us - queue_us - self.on_device_us

    def chosen(
        self, which: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        return self.minutes[which], self.is_hot[which], self.is_cached[which]


def _is_in(entities: pa.ChunkedArray, hot: pa.Array) -> npt.NDArray[np.bool_]:
    return cast(npt.NDArray[np.bool_], pc.is_in(entities, value_set=hot).to_numpy(zero_copy_only=False))
