"""What is kept of the log: counts as arrays, a few thousand rows an hour however many requests it had. Immutable.

Two kinds of rows. Of requests: (minute, kind, requests, latest time), where a kind is a combination of source,
version, reason, code and status. Of latencies: (first minute of a slot, cell, answers), where a cell is a source,
a stage and a bin 1 % wide of microseconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import log
from typing import NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from online.monitor.requestlog.sql import BINS_PER_E, CONFIDENCE, ERROR, IMPORTED, TOTAL
from schemas.arrow import STAGES
from schemas.http import Source

Whole = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

OTHER = "other"
# In the order in which they are stacked: hits first, so that the hit rate is a height of the chart.
SOURCES = (*(source.value for source in Source), OTHER, ERROR)
TIMED = (TOTAL, *STAGES)
# What has cells. A confidence is no latency, but is kept, coarsened and merged as they are (`sql.CONFIDENCE`).
MEASURED = (*TIMED, CONFIDENCE)
# Of int32 microseconds.
BINS = int(log(2**31) * BINS_PER_E) + 1
CELLS = len(SOURCES) * len(MEASURED) * BINS
# The minute of rows without a usable time, before every window.
UNDATED = int(np.iinfo(np.int32).min)
# A log of ours has some dozens; a foreign one whose codes are free text must not grow without end.
MAX_KINDS = 2000


class Kind(NamedTuple):
    """What rows of a request count share. `source` is as logged, so it may be `sql.IMPORTED` or a newer one."""

    source: str
    version: str | None
    reason: str | None
    code: str | None
    status: int | None


class Kinds:
    """Numbers of kinds, of all parts of a log. Only grows; one thread adds, any may read.

    From `MAX_KINDS` on, what is new is counted by its source alone.
    """

    def __init__(self) -> None:
        self._numbers: dict[Kind, int] = {}
        self.all: list[Kind] = []

    def number(self, kind: Kind) -> int:
        found = self._numbers.get(kind)
        if found is None and len(self.all) >= MAX_KINDS:
            source = kind.source if kind.source == IMPORTED else known_source(kind.source)
            kind = Kind(source, None, OTHER, OTHER, None)
            found = self._numbers.get(kind)
        if found is None:
            found = self._numbers[kind] = len(self.all)
            self.all.append(kind)
        return found


@dataclass(frozen=True, slots=True)
class Requests:
    """Arrays (n,) of equal length."""

    minute: Small
    kind: Small
    requests: Whole
    newest_us: Whole

    def where(self, chosen: npt.NDArray[np.bool_]) -> Self:
        return type(self)(self.minute[chosen], self.kind[chosen], self.requests[chosen], self.newest_us[chosen])


@dataclass(frozen=True, slots=True)
class Latencies:
    """Arrays (n,) of equal length."""

    minute: Small
    cell: Small
    answers: Small

    def where(self, chosen: npt.NDArray[np.bool_]) -> Self:
        return type(self)(self.minute[chosen], self.cell[chosen], self.answers[chosen])


Rows = TypeVar("Rows", Requests, Latencies)


@dataclass(frozen=True, slots=True)
class Part:
    """Counts of some rows of the log."""

    requests: Requests
    latencies: Latencies

    @property
    def rows(self) -> int:
        """How many rows of the log it was counted from."""
        return int(self.requests.requests.sum())

    @property
    def undated(self) -> int:
        return int(self.requests.requests[self.requests.minute == UNDATED].sum())

    def without_hours(self, hours: set[int]) -> "Part":
        gone = np.array(sorted(hours), dtype=np.int64)
        return Part(
            self.requests.where(~np.isin(self.requests.minute // 60, gone)),
            self.latencies.where(~np.isin(self.latencies.minute // 60, gone)),
        )


def merged(parts: Sequence[Part], slot_minutes: int) -> Part:
    """One of several with each kind of a minute and each cell of a slot once. Args: parts: at least one."""
    requests, latencies = _joined(_requests_of(parts)), _joined(_latencies_of(parts))
    order, starts = _groups(requests.minute, requests.kind)
    counted = Requests(
        requests.minute[order][starts],
        requests.kind[order][starts],
        _sums(requests.requests[order], starts),
        np.maximum.reduceat(requests.newest_us[order], starts) if len(starts) else requests.newest_us,
    )
    slots = latencies.minute // slot_minutes * slot_minutes
    order, starts = _groups(slots, latencies.cell)
    answers = _sums(latencies.answers[order], starts).astype(np.int32)
    return Part(counted, Latencies(slots[order][starts].astype(np.int32), latencies.cell[order][starts], answers))


def cells_of(source: str, stage: str) -> slice:
    """Where the bins of a source and a stage lie in an array of all cells."""
    first = (SOURCES.index(source) * len(MEASURED) + MEASURED.index(stage)) * BINS
    return slice(first, first + BINS)


def known_source(source: str) -> str:
    """A source of a newer log is shown as `other`, so that totals still add up."""
    return source if source in SOURCES else OTHER


@dataclass(frozen=True, slots=True)
class Counts:
    """All parts that are kept, with the kinds their rows name."""

    parts: tuple[Part, ...]
    kinds: Sequence[Kind]

    @classmethod
    def of(cls, parts: Iterable[Part], kinds: Kinds) -> Self:
        return cls(tuple(parts), kinds.all)

    @property
    def undated(self) -> int:
        return sum(part.undated for part in self.parts)

    def within(self, first: int, last: int) -> "Within":
        """Rows of the minutes from `first` on, `last` excluded, of all parts."""
        return Within(self.parts, first, last)


@dataclass(frozen=True)
class Within:
    """Rows of all parts in a span of minutes; each kind of rows is put together when it is asked for."""

    parts: Sequence[Part]
    first: int
    last: int

    @cached_property
    def requests(self) -> Requests:
        return _joined(self._cut(_requests_of(self.parts)))

    @cached_property
    def latencies(self) -> Latencies:
        return _joined(self._cut(_latencies_of(self.parts)))

    def _cut(self, several: Iterable[Rows]) -> list[Rows]:
        """Only rows of parts at the span's edges are looked at one by one."""
        found: list[Rows] = []
        empty: list[Rows] = []
        for rows in several:
            low, high = (rows.minute.min(), rows.minute.max()) if len(rows.minute) else (self.last, self.last)
            if low >= self.first and high < self.last:
                found.append(rows)
            elif high >= self.first and low < self.last:
                found.append(rows.where(_inside(rows.minute, self.first, self.last)))
            elif not empty:
                empty.append(rows.where(np.zeros(len(rows.minute), bool)))
        return found or empty


EMPTY = Part(
    Requests(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)),
    Latencies(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)),
)


def _requests_of(parts: Sequence[Part]) -> list[Requests]:
    return [part.requests for part in parts] or [EMPTY.requests]


def _latencies_of(parts: Sequence[Part]) -> list[Latencies]:
    return [part.latencies for part in parts] or [EMPTY.latencies]


def _joined(several: Sequence[Rows]) -> Rows:
    """All rows as they are. Args: several: at least one."""
    kind = type(several[0])
    return kind(*(np.concatenate([getattr(rows, field.name) for rows in several]) for field in fields(kind)))


def _inside(minutes: Small, first: int, last: int) -> npt.NDArray[np.bool_]:
    return (minutes >= first) & (minutes < last)


def _groups(major: npt.NDArray[np.integer], minor: Small) -> tuple[Whole, Whole]:
    """The order in which equal pairs stand together, and where each group of them begins."""
    order = np.lexsort((minor, major))
    changes = (np.diff(major[order]) != 0) | (np.diff(minor[order]) != 0)
    return order, np.concatenate([[0], np.flatnonzero(changes) + 1]) if len(order) else order


def _sums(values: npt.NDArray[np.integer], starts: Whole) -> Whole:
    return np.add.reduceat(values.astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)
