"""Rows of counts as arrays, and the parts of the log that they were folded from. Immutable.

Of requests: (minute, kind, requests, latest time), where a kind is a combination of source, version, reason, code
and status. Of latencies: (first minute of a slot, cell, answers), where a cell is a source, a stage and a bin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]

# The minute of rows without a usable time, before every window.
UNDATED = int(np.iinfo(np.int32).min)


@dataclass(frozen=True, slots=True)
class Requests:
    """Arrays (n,) of equal length."""

    minute: Small
    kind: Small
    requests: Whole
    newest_us: Whole

    def where(self, chosen: npt.NDArray[np.bool_] | slice) -> Self:
        return type(self)(self.minute[chosen], self.kind[chosen], self.requests[chosen], self.newest_us[chosen])


@dataclass(frozen=True, slots=True)
class Latencies:
    """Arrays (n,) of equal length."""

    minute: Small
    cell: Small
    answers: Small

    def where(self, chosen: npt.NDArray[np.bool_] | slice) -> Self:
        return type(self)(self.minute[chosen], self.cell[chosen], self.answers[chosen])


# Two parts are the same only where they are one object: what was worked out of parts is kept by that.
@dataclass(frozen=True, eq=False)
class Part:
    """Counts of some rows of the log."""

    requests: Requests
    latencies: Latencies

    @property
    def rows(self) -> int:
        """How many rows of the log it was counted from."""
        return int(self.requests.requests.sum())

    @cached_property
    def undated(self) -> int:
        return int(self.requests.requests[self.requests.minute == UNDATED].sum())

    @cached_property
    def span(self) -> tuple[int, int]:
        """First and last minute that it has rows of; `UNDATED` twice where it has none."""
        minutes = np.concatenate([self.requests.minute, self.latencies.minute])
        dated = minutes[minutes != UNDATED]
        return (int(dated.min()), int(dated.max())) if len(dated) else (UNDATED, UNDATED)

    def without_hours(self, hours: set[int]) -> "Part":
        gone = np.array(sorted(hours), dtype=np.int64)
        return Part(
            self.requests.where(~np.isin(self.requests.minute // 60, gone)),
            self.latencies.where(~np.isin(self.latencies.minute // 60, gone)),
        )


EMPTY = Part(
    Requests(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)),
    Latencies(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int32)),
)
Rows = TypeVar("Rows", Requests, Latencies)


def joined(several: Sequence[Rows]) -> Rows:
    """All rows as they are. Args: several: at least one."""
    if len(several) == 1:
        return several[0]
    kind = type(several[0])
    return kind(*(np.concatenate([getattr(rows, field.name) for rows in several]) for field in fields(kind)))


def merged(parts: Sequence[Part], slot_minutes: int) -> Part:
    """One of several with each kind of a minute and each cell of a slot once. Args: parts: at least one."""
    requests = joined([part.requests for part in parts] or [EMPTY.requests])
    latencies = joined([part.latencies for part in parts] or [EMPTY.latencies])
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


def _groups(major: npt.NDArray[np.integer], minor: Small) -> tuple[Whole, Whole]:
    """The order in which equal pairs stand together, and where each group of them begins."""
    order = np.lexsort((minor, major))
    changes = (np.diff(major[order]) != 0) | (np.diff(minor[order]) != 0)
    return order, np.concatenate([[0], np.flatnonzero(changes) + 1]) if len(order) else order


def _sums(values: npt.NDArray[np.integer], starts: Whole) -> Whole:
    return np.add.reduceat(values.astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)
