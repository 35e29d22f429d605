"""The queue of one batching device, event by event: cap, delay window and deadline. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf, nan

import numpy as np
import numpy.typing as npt

from online.planning.batching import BatchMs
from online.planning.checks import OutOfRange, counts, not_negative

Milliseconds = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BatchingRule:
    """When a free device takes its batch.

    Attributes:
        max_batch_rows: None for no cap.
        max_delay_ms: how long an idle device waits for company after the first has come; a device that has just
            finished never waits (as the product's batcher).
        deadline_ms: from arrival to answer. Who would be answered later is dropped when a batch is taken.
    """

    max_batch_rows: int | None = None
    max_delay_ms: float = 0.0
    deadline_ms: float = inf

    def check(self) -> None:
        """Raises OutOfRange."""
        if self.max_batch_rows is not None:
            counts(max_batch_rows=self.max_batch_rows)
        not_negative(max_delay_ms=self.max_delay_ms)
        if not self.deadline_ms > 0:
            raise OutOfRange("deadline_ms", self.deadline_ms, "above 0")


TAKE_ALL = BatchingRule()


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of the requests.

    Attributes:
        latency_ms: (n,) in order of arrival; NaN where it was dropped.
        rows: (n,) of the batch that each was in; 1 where it was dropped.
        batch_rows: of each batch, in no order.
    """

    latency_ms: Milliseconds
    rows: Places
    batch_rows: Places
    busy_ms: float
    span_ms: float


class _Times(dict[int, float]):
    """T(b) of each size that has come, so that it is computed once."""

    def __init__(self, batch_ms: BatchMs) -> None:
        self._batch_ms = batch_ms

    def __missing__(self, rows: int) -> float:
        found = self[rows] = self._batch_ms(rows)
        return found


@dataclass(slots=True)
class _Taken:
    """Batches that the loop went through: requests `firsts` to before `ends`; and the requests dropped."""

    firsts: list[int]
    ends: list[int]
    answered_ms: list[float]
    dropped: list[int]


def run(arrivals_ms: Milliseconds, batch_ms: BatchMs, rule: BatchingRule) -> Queued:
    """What one device does with these arrivals, (n,) ascending.

    A loop over batches, since each depends on the end of the last. Requests that find the device idle and are
    answered before the next one comes are not in it: each takes what one alone takes.
    """
    rule.check()
    times, none = _Times(batch_ms), len(arrivals_ms) + 1
    cap = min(rule.max_batch_rows or none, none)
    alone_ms = times[1] + (rule.max_delay_ms if cap > 1 else 0.0)
    taken = _take(arrivals_ms.tolist(), _next_meeting(arrivals_ms, alone_ms, rule), times, cap, rule)
    return _queued(arrivals_ms, taken, times, alone_ms)


def _next_meeting(arrivals_ms: Milliseconds, alone_ms: float, rule: BatchingRule) -> Sequence[int]:
    """From each request on, and from the end on, the first that may meet others, or be late, on an idle device."""
    count = len(arrivals_ms)
    is_meeting = np.diff(arrivals_ms, append=inf) <= alone_ms
    # Where few can be passed over, looking for them costs more than it saves.
    if alone_ms > rule.deadline_ms or 2 * int(is_meeting.sum()) > count:
        return range(count + 1)
    places = np.where(is_meeting, np.arange(count), count)
    return [*np.minimum.accumulate(places[::-1])[::-1].tolist(), count]


def _take(
    arrivals: list[float], next_meeting: Sequence[int], times: _Times, cap: int, rule: BatchingRule
) -> _Taken:
    """Longer than other functions: it is the inner loop."""
    count, delay_ms, deadline_ms = len(arrivals), rule.max_delay_ms, rule.deadline_ms
    has_deadline = deadline_ms < inf
    # So that there is no end to be looked out for.
    arrivals.extend(repeat(inf, cap))
    taken = _Taken([], [], [], [])
    firsts, ends, answered = taken.firsts, taken.ends, taken.answered_ms
    first, begins_ms = 0, -inf
    while True:
        end = bisect_right(arrivals, begins_ms, first, first + cap)
        if end == first:
            first = next_meeting[first]
            if first == count:
                return taken
            begins_ms = arrivals[first]
            if delay_ms:
                begins_ms = min(begins_ms + delay_ms, arrivals[first + cap - 1])
            end = first + 1
            if arrivals[end] <= begins_ms:
                end = bisect_right(arrivals, begins_ms, end, first + cap)
        ends_ms = begins_ms + times[end - first]
        if has_deadline and ends_ms - arrivals[first] > deadline_ms:
            taken.dropped.append(first)
            first += 1
            continue
        firsts.append(first)
        ends.append(end)
        answered.append(ends_ms)
        first, begins_ms = end, ends_ms


def _queued(arrivals_ms: Milliseconds, taken: _Taken, times: _Times, alone_ms: float) -> Queued:
    firsts, ends = np.array(taken.firsts, np.int64), np.array(taken.ends, np.int64)
    rows = ends - firsts
    together = int(rows.sum())
    # The places of all requests in these batches, one after another.
    places = np.repeat(ends - np.cumsum(rows), rows) + np.arange(together)
    latency_ms = np.full(len(arrivals_ms), alone_ms)
    latency_ms[places] = np.repeat(np.array(taken.answered_ms), rows) - arrivals_ms[places]
    latency_ms[taken.dropped] = nan
    rows_of_each = np.ones(len(arrivals_ms), np.int64)
    rows_of_each[places] = np.repeat(rows, rows)
    alone = len(arrivals_ms) - together - len(taken.dropped)
    batch_rows = np.concatenate([rows, np.ones(alone, np.int64)])
    busy_ms = sum(times[size] * int(often) for size, often in enumerate(np.bincount(batch_rows)) if often)
    last_ms = max(float(arrivals_ms[-1]), taken.answered_ms[-1] if taken.answered_ms else -inf)
    if latency_ms[-1] == alone_ms:
        last_ms = max(last_ms, float(arrivals_ms[-1]) + alone_ms)
    return Queued(latency_ms, rows_of_each, batch_rows, busy_ms, last_ms - float(arrivals_ms[0]))
