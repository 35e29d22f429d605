"""Spans of minutes of the kept log, and what was worked out of them, which is kept while their parts are the same.

A page is made of its range's steps. All but the newest of them are as they were for the page before, so that a
page costs what is new since then, however long its range is.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from online.monitor.requestlog.kinds import Kind
from online.monitor.requestlog.rows import EMPTY, Latencies, Part, Requests, Rows, Small, joined

# All steps of all ranges are some 270; a page of nights asks for one more each.
MOST_SPANS = 600
Found = TypeVar("Found")
Args = ParamSpec("Args")


class Within:
    """Rows of the minutes from `first` on, `last` excluded, of these parts. Thread-safe."""

    def __init__(self, parts: tuple[Part, ...], kinds: Sequence[Kind], first: int, last: int) -> None:
        self.parts, self.kinds, self.first, self.last = parts, kinds, first, last
        self._found: dict[tuple[object, ...], object] = {}

    @property
    def requests(self) -> Requests:
        """Put together anew each time: what is worth keeping is worked out of them `once`."""
        return joined(self._cut([part.requests for part in self.parts] or [EMPTY.requests]))

    @property
    def latencies(self) -> Latencies:
        return joined(self._cut([part.latencies for part in self.parts] or [EMPTY.latencies]))

    def once(
        self, work: Callable[Concatenate["Within", Args], Found], *args: Args.args, **named: Args.kwargs
    ) -> Found:
        """What `work`, a function of a module, makes of this span and of what it is given; the same each time."""
        key = (work, *args, *named.items())
        if key not in self._found:
            self._found[key] = work(self, *args, **named)
        return cast(Found, self._found[key])

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


class Spans:
    """The spans last asked for. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], Within] = OrderedDict()

    def get(self, parts: tuple[Part, ...], kinds: Sequence[Kind], first: int, last: int) -> Within:
        """The span as it was, or another where any of its parts is another."""
        key = (first, last)
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.parts != parts:
                found = self._kept[key] = Within(parts, kinds, first, last)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_SPANS:
                self._kept.popitem(last=False)
        return found

    def forget_all_but(self, parts: Sequence[Part]) -> None:
        """Lets go of what was worked out of other parts."""
        current = set(parts)
        with self._lock:
            for key in [key for key, found in self._kept.items() if not current.issuperset(found.parts)]:
                del self._kept[key]


def _inside(minutes: Small, first: int, last: int) -> npt.NDArray[np.bool_]:
    return (minutes >= first) & (minutes < last)
