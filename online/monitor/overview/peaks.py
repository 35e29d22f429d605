"""The busiest minutes of a window, of kinds of requests. Pure."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from online.monitor.fleet import PeakMinute
from online.monitor.requestlog.counts import Counts
from online.monitor.requestlog.kinds import Kind
from online.monitor.requestlog.spans import Within
from online.monitor.requestlog.sql import ERROR, IMPORTED
from online.monitor.windows import Window
from schemas.http import Source

HITS = (Source.PRECOMPUTED.value, Source.CACHED.value)
# A function of a module: what is found by it is kept under it.
Counted = Callable[[Kind], bool]


def needs_answer(kind: Kind) -> bool:
    """A refused caller's request (4xx) needs no replica; a failed answer (5xx) would have needed one."""
    return kind.source != IMPORTED and not (kind.source == ERROR and 400 <= (kind.status or 0) <= 499)


def is_tail(kind: Kind) -> bool:
    return needs_answer(kind) and kind.source not in HITS


def is_not_precomputed(kind: Kind) -> bool:
    """Written-back answers included."""
    return needs_answer(kind) and kind.source != Source.PRECOMPUTED.value


def read_hot_missed_peak(counts: Counts, window: Window) -> PeakMinute | None:
    """The busiest minute of what was not precomputed."""
    return read_peak(counts, window, is_not_precomputed)


def read_peak(counts: Counts, window: Window, counted: Counted) -> PeakMinute | None:
    """The first of the busiest minutes of requests of such kinds; None where there are none."""
    found = [peak for peak in _peaks(counts, window, counted) if peak is not None]
    return max(found, key=lambda peak: (peak.requests, -peak.minute), default=None)


def peaks_by_step(counts: Counts, window: Window, counted: Counted) -> list[int]:
    """Requests of the busiest minute of each step."""
    return [peak.requests if peak else 0 for peak in _peaks(counts, window, counted)]


def _peaks(counts: Counts, window: Window, counted: Counted) -> list[PeakMinute | None]:
    return [step.once(_peak, counted) for step in counts.steps(*window.minutes)]


def _peak(span: Within, counted: Counted) -> PeakMinute | None:
    found = span.requests
    if not len(found.kind):
        return None
    is_counted = np.array([counted(kind) for kind in span.kinds[: int(found.kind.max()) + 1]], dtype=np.float64)
    weights = found.requests * is_counted[found.kind]
    by_minute: npt.NDArray[Any] = np.bincount(found.minute - span.first, weights=weights)
    place = int(by_minute.argmax())
    return PeakMinute(span.first + place, int(by_minute[place])) if by_minute[place] else None
