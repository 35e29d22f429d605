"""Kinds of requests, and sources as they are shown."""

from typing import NamedTuple

from online.monitor.requestlog.sql import ERROR, IMPORTED
from schemas.http import Source

OTHER = "other"
# In the order in which they are stacked: hits first, so that the hit rate is a height of the chart.
SOURCES = (*(source.value for source in Source), OTHER, ERROR)
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


def known_source(source: str) -> str:
    """A source of a newer log is shown as `other`, so that totals still add up."""
    return source if source in SOURCES else OTHER
