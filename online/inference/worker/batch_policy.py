"""When a free device takes its next batch, and which rows go into it. Pure: no clock, no I/O, no threads.

A device that has just finished takes at once all that waits: whoever arrived while it was busy has waited already.
Only a device that was idle when the first row arrived waits a little for company. Where only some batch sizes are
fast, because their launches were captured, a batch is cut or padded to the one of them that does most rows a ms.

A device that can be given a batch while it works on another gets it shortly before it is done, if a whole one
waits: nothing is gained by waiting for company then, and the device goes from one to the next at once.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from schemas.capacity import BatchTime


class Rows(Protocol):
    """Rows that stay together in one batch. Only rows of one `shape` may share a batch."""

    @property
    def rows(self) -> int: ...
    @property
    def shape(self) -> Hashable: ...


# How long before the expected end of a batch the next is launched: time to send it, and what T(b) may be wrong by.
_AHEAD_SHARE, _AHEAD_AT_LEAST_MS, _AHEAD_AT_MOST_SHARE = 0.1, 1.0, 0.25

Waiting = TypeVar("Waiting", bound=Rows)


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """When and what to take.

    Attributes:
        max_delay_ns: how long an idle device waits for more rows after the first arrived.
        preferred_rows: ascending, the last is `max_rows`; empty where every size is as good as its T(b).
    """

    max_rows: int
    max_delay_ns: int = 0
    preferred_rows: tuple[int, ...] = ()

    def wait_ns(self, now_ns: int, waiting_rows: int, first_arrived_ns: int, free_since_ns: int) -> int:
        """How long a free device still waits; 0 means it takes its batch now. At least one row waits.

        Args:
            first_arrived_ns: when the longest waiting row arrived.
            free_since_ns: when the device finished its last batch.
        """
        if waiting_rows >= self.max_rows or first_arrived_ns <= free_since_ns:
            return 0
        return max(0, first_arrived_ns + self.max_delay_ns - now_ns)

    def ahead_ns(self, batch_ms: float) -> int:
        """How long before its end, in a batch that takes `batch_ms`, the next may be launched."""
        return round(1e6 * min(max(_AHEAD_SHARE * batch_ms, _AHEAD_AT_LEAST_MS), _AHEAD_AT_MOST_SHARE * batch_ms))

    def choose(self, waiting: Iterable[Waiting], time: BatchTime | None = None) -> list[Waiting]:
        """The next batch of `waiting`, which is in order of service: by priority, then by arrival.

        Rows of another shape than the first are left where they are. The first that does not fit ends the batch,
        so that a large request is not overtaken for ever by small ones.
        """
        chosen: list[Waiting] = []
        rows = 0
        for item in waiting:
            if chosen and item.shape != chosen[0].shape:
                continue
            if rows + item.rows > self.max_rows:
                break
            chosen.append(item)
            rows += item.rows
            if rows == self.max_rows:
                break
        if self.preferred_rows and time is not None:
            aim = self._best_size(rows, time)
            while rows > aim and len(chosen) > 1:  # a request's rows are not torn apart for it
                rows -= chosen.pop().rows
        return chosen

    def _best_size(self, rows: int, time: BatchTime) -> int:
        """The preferred size that does most of `rows` a millisecond; of equals the larger."""
        return max(self.preferred_rows, key=lambda size: (min(rows, size) / time.batch_ms(size), size))
