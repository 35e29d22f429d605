"""What is kept of the log: counts as arrays, a few thousand rows an hour however many requests it had. Immutable.

Which kinds of requests and which cells there are, and all parts that are kept with the spans that pages ask for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Self

import numpy as np

from online.monitor.requestlog.kinds import SOURCES, Kind, Kinds
from online.monitor.requestlog.rows import Part, Whole
from online.monitor.requestlog.spans import Spans, Within
from online.monitor.requestlog.sql import AGE, BINS_PER_E, CONFIDENCE, TOTAL
from schemas.names import STAGES

TIMED = (TOTAL, *STAGES)
# What has cells. Confidences and ages are no latencies, but are kept, coarsened and merged as they are (`sql.py`).
MEASURED = (*TIMED, CONFIDENCE, AGE)
# Ranges and nights asked of the same counts that are remembered.
MOST_ASKED = 64
# Of int32 microseconds.
BINS = int(log(2**31) * BINS_PER_E) + 1
CELLS = len(SOURCES) * len(MEASURED) * BINS


def cells_of(source: str, stage: str) -> slice:
    """Where the bins of a source and a stage lie in an array of all cells."""
    first = (SOURCES.index(source) * len(MEASURED) + MEASURED.index(stage)) * BINS
    return slice(first, first + BINS)


@dataclass(frozen=True)
class Counts:
    """All parts that are kept, with the kinds their rows name. `spans` outlives it, as most parts do."""

    parts: tuple[Part, ...]
    kinds: Sequence[Kind]
    spans: Spans = field(default_factory=Spans, compare=False)

    @classmethod
    def of(cls, parts: Iterable[Part], kinds: Kinds, spans: Spans) -> Self:
        found = cls(tuple(parts), kinds.all, spans)
        spans.forget_all_but(found.parts)
        return found

    @property
    def undated(self) -> int:
        return sum(part.undated for part in self.parts)

    def within(self, first: int, last: int) -> Within:
        """Rows of the minutes from `first` on, `last` excluded."""
        return self.steps(first, last - first, 1)[0]

    def steps(self, first: int, step_minutes: int, steps: int) -> list[Within]:
        """So many spans of equal length that follow each other from minute `first` on."""
        key = (first, step_minutes, steps)
        if key not in self._steps:
            if len(self._steps) == MOST_ASKED:
                self._steps.clear()
            starts = first + step_minutes * np.arange(steps)
            low, high = self._edges
            # (steps, parts): which parts have rows of a step.
            touched = (low < starts[:, None] + step_minutes) & (high >= starts[:, None])
            self._steps[key] = [
                self.spans.get(
                    tuple(self.parts[place] for place in np.flatnonzero(row).tolist()),
                    self.kinds,
                    start,
                    start + step_minutes,
                )
                for start, row in zip(starts.tolist(), touched, strict=True)
            ]
        return self._steps[key]

    @cached_property
    def _steps(self) -> dict[tuple[int, int, int], list[Within]]:
        """As they were asked for."""
        return {}

    @cached_property
    def _edges(self) -> tuple[Whole, Whole]:
        """First and last minutes of all parts."""
        spans = np.array([part.span for part in self.parts], np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Requests, and the time of the newest in microseconds, by number of kind; arrays (kinds,)."""

    requests: Whole
    newest_us: Whole


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Answers by cell, of the cells that have any, ascending; arrays (n,)."""

    cell: Whole
    answers: Whole


def tally(span: Within) -> Tally:
    """Requests of a span by kind; for `Within.once`."""
    found = span.requests
    kinds = int(found.kind.max()) + 1 if len(found.kind) else 0
    newest = np.zeros(kinds, np.int64)
    np.maximum.at(newest, found.kind, found.newest_us)
    return Tally(np.bincount(found.kind, weights=found.requests, minlength=kinds).astype(np.int64), newest)


def cells(span: Within) -> Cells:
    """Answers of a span by cell; for `Within.once`."""
    found = span.latencies
    every = np.bincount(found.cell, weights=found.answers)
    cell = np.flatnonzero(every)
    return Cells(cell, every[cell].astype(np.int64))


def tallies(steps: Sequence[Within]) -> tuple[Whole, Whole]:
    """Requests by step and kind, (steps, kinds), and the newest time by kind, (kinds,); 0 where there is none."""
    found = [step.once(tally) for step in steps]
    kinds = max((len(one.requests) for one in found), default=0)
    requests, newest = np.zeros((len(steps), kinds), np.int64), np.zeros(kinds, np.int64)
    for place, one in enumerate(found):
        requests[place, : len(one.requests)] = one.requests
        np.maximum(newest[: len(one.newest_us)], one.newest_us, out=newest[: len(one.newest_us)])
    return requests, newest
