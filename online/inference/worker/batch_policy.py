"""When a free device takes its next batch, and which rows go into it. Pure: no clock, no I/O, no threads.

A device that has just finished takes at once all that waits: whoever arrived while it was busy has waited already.
Only a device that was idle when the first row arrived waits a little for company.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Rows(Protocol):
    """Rows that stay together in one batch. Only rows of one `shape` may share a batch."""

    @property
    def rows(self) -> int: ...
    @property
    def shape(self) -> Hashable: ...


Waiting = TypeVar("Waiting", bound=Rows)


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """`max_delay_ns` is how long an idle device waits for more rows after the first arrived."""

    max_rows: int
    max_delay_ns: int = 0

    def wait_ns(self, now_ns: int, waiting_rows: int, first_arrived_ns: int, free_since_ns: int) -> int:
        """How long a free device still waits; 0 means it takes its batch now. At least one row waits.

        Args:
            first_arrived_ns: when the longest waiting row arrived.
            free_since_ns: when the device finished its last batch.
        """
        if waiting_rows >= self.max_rows or first_arrived_ns <= free_since_ns:
            return 0
        return max(0, first_arrived_ns + self.max_delay_ns - now_ns)

    def choose(self, waiting: Iterable[Waiting]) -> list[Waiting]:
        """The next batch of `waiting`, which is in order of service: by priority, then by arrival.

        Rows of another shape than the first are left where they are. The first that does not fit ends the batch,
        so that a large request is not overtaken for ever by small ones.
        """
        chosen: list[Waiting] = []
        room = self.max_rows
        for item in waiting:
            if chosen and item.shape != chosen[0].shape:
                continue
            if item.rows > room:
                break
            chosen.append(item)
            room -= item.rows
            if room == 0:
                break
        return chosen
