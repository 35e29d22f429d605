"""A request log as arrays: who was asked for, when; and the windows that refreshes cut it into."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Self

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
DAY_S = 86400.0


@dataclass(frozen=True)
class Trace:
    """n requests for m entities, in order.

    Attributes:
        times_s: (n,) seconds, never falling. Where the log has an order only, its windows count as days each.
        codes: (n,) which entity, 0 to m − 1.
        names: the m entities.
        id_bytes: (m,) of each entity's id in UTF-8.
        cost: (m,) what scoring an entity live costs, as a multiple of the usual.
        has_times: whether `times_s` are the log's own.
    """

    times_s: Floats
    codes: Ints
    names: Sequence[str]
    id_bytes: Floats
    cost: Floats
    has_times: bool = True

    @classmethod
    def of(
        cls, codes: Ints, names: Sequence[str], times_s: Floats | None = None, cost: Floats | None = None
    ) -> Self:
        """Sorted by time where there is one; requests of one moment keep their order."""
        codes = np.asarray(codes, dtype=np.int64)
        if times_s is not None:
            order = np.argsort(times_s, kind="stable")
            codes, times_s = codes[order], np.asarray(times_s, dtype=np.float64)[order]
        id_bytes = np.fromiter((len(name.encode()) for name in names), np.float64, len(names))
        return cls(
            np.arange(len(codes), dtype=np.float64) if times_s is None else times_s,
            codes,
            names,
            id_bytes,
            np.ones(len(names)) if cost is None else cost,
            times_s is not None,
        )

    @property
    def entities(self) -> int:
        return len(self.names)

    @cached_property
    def rank(self) -> Ints:
        """(m,) each entity's place in the order of the ids' bytes, which breaks ties."""
        # UTF-8 keeps the order of code points, by which Python compares text.
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def knowing(self, names: Collection[str]) -> "Trace":
        """With entities beside, where there are such among `names`, that nobody asked for."""
        more = sorted(set(names).difference(self.names))
        more_bytes = np.fromiter((len(name.encode()) for name in more), np.float64, len(more))
        return replace(
            self,
            names=[*self.names, *more],
            id_bytes=np.concatenate([self.id_bytes, more_bytes]),
            cost=np.concatenate([self.cost, np.ones(len(more))]),
        )

    def only(self, is_kept: npt.NDArray[np.bool_]) -> "Trace":
        """The requests for the entities that `is_kept` (m,) names, which are numbered anew."""
        number = np.cumsum(is_kept) - 1
        asked = is_kept[self.codes]
        kept = np.flatnonzero(is_kept)
        return replace(
            self,
            times_s=self.times_s[asked],
            codes=number[self.codes[asked]],
            names=[self.names[place] for place in kept.tolist()],
            id_bytes=self.id_bytes[kept],
            cost=self.cost[kept],
        )


@dataclass(frozen=True)
class Windows:
    """Times between refreshes: window i is [edges_s[i], edges_s[i + 1]).

    Attributes:
        first: (windows + 1,) the place in the trace of each window's first request.
        history: how many windows back a choice may look.
    """

    edges_s: Floats
    first: Ints
    history: int

    def __len__(self) -> int:
        return len(self.edges_s) - 1

    @property
    def refresh_s(self) -> float:
        return float(self.edges_s[1] - self.edges_s[0])

    def span(self, window: int) -> slice:
        return slice(int(self.first[window]), int(self.first[window + 1]))

    def past(self, window: int) -> slice:
        """The requests that a choice for `window` may look at."""
        return slice(int(self.first[max(0, window - self.history)]), int(self.first[window]))


class BadLog(Exception):
    """A log that nothing can be said about; the message says why, in words."""


_FEWEST = 4


def cut(
    trace: Trace,
    refresh_s: float | None = None,
    history: int | None = None,
    is_to_end: bool = False,
) -> tuple[Trace, Windows]:
    """The windows of a trace: of `refresh_s` where given, else days, or tenths where it is shorter than ten days.

    Args:
        history: windows that a choice looks back; 28 where not given.
        is_to_end: the last window ends with the log and is whole, as a choice made now wants it; else days begin
            at midnight UTC and the last may be short.

    Returns:
        the trace, its times rewritten where it has an order only: a tenth of the log is a day then.

    Raises BadLog where the log is shorter than four windows: nothing could be tried on its past.
    """
    if not len(trace.codes):
        raise BadLog("the log holds no request")
    if not trace.has_times:
        width_s = DAY_S if refresh_s is None else refresh_s
        rows = max(1, -(-len(trace.codes) // 10))
        trace = replace(trace, times_s=np.arange(len(trace.codes), dtype=np.float64) * (width_s / rows))
        refresh_s = width_s
    begin_s, end_s = float(trace.times_s[0]), float(trace.times_s[-1])
    if refresh_s is None:
        refresh_s = DAY_S if end_s - begin_s >= 10 * DAY_S else max(end_s - begin_s, 1e-6) * (1 + 1e-9) / 10
    if is_to_end:
        count = int((end_s - begin_s) // refresh_s) + 1
        begin_s = np.nextafter(end_s, np.inf) - count * refresh_s
    elif trace.has_times and refresh_s % DAY_S == 0:
        begin_s = float(np.floor(begin_s / DAY_S) * DAY_S)
    count = int((end_s - begin_s) // refresh_s) + 1
    if count < _FEWEST:
        raise BadLog(
            f"the log holds {count} windows of {refresh_s:g} s: a backtest needs {_FEWEST}; give --refresh"
        )
    return trace, _between(trace, begin_s + refresh_s * np.arange(count + 1, dtype=np.float64), history or 28)


def windows_until(trace: Trace, until_s: float, refresh_s: float, history: int) -> Windows:
    """The windows from the first request on of which the last ends at `until_s`, after all requests."""
    first_s = float(trace.times_s[0]) if len(trace.times_s) else until_s
    count = max(1, ceil((until_s - first_s) / refresh_s))
    return _between(trace, until_s - refresh_s * np.arange(count, -1, -1, dtype=np.float64), history)


def _between(trace: Trace, edges_s: Floats, history: int) -> Windows:
    return Windows(edges_s, np.searchsorted(trace.times_s, edges_s).astype(np.int64), history)
