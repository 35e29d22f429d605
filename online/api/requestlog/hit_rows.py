"""Plain hits on their way to the log: most answers are such.

A hit leaves its request id and times, packed, and the answer it was told, which is not looked into: for each hit
it would have to come from memory first. The writer's thread does that once a second, for each answer once, and
finds rows that numpy takes as they are: see `hit_columns.py`.
"""

import threading
from collections.abc import Sequence
from struct import Struct
from typing import Protocol

from online.api.answering.l1 import Kept
from online.api.routes.view import ModelView, VersionView

# When it was answered (us); us in total, before the look-up, of it, and for the answer's text.
Numbers5 = tuple[int, int, int, int, int]
_FREED_AT_ONCE = 200
NUMBERS_BYTES = Struct("=5q").size


class Lane(Protocol):
    """Of which version hits are, and of which state of what is live."""

    @property
    def view(self) -> ModelView: ...
    @property
    def version(self) -> VersionView: ...


class AnsweredHit(Protocol):
    """One request that was answered."""

    @property
    def lane(self) -> Lane: ...

    kept: Kept
    request_id: bytes
    now_us: int
    total_us: int
    route_us: int
    lookup_us: int
    post_us: int


class Hits:
    """Hits of one lane whose request ids are of one length.

    Attributes:
        packed: of each row the request id, and `Numbers5` as int64.
        told: the answer of each row.
    """

    __slots__ = ("id_bytes", "lane", "pack", "packed", "told")

    def __init__(self, lane: Lane, id_bytes: int) -> None:
        self.lane, self.id_bytes = lane, id_bytes
        self.packed, self.told = bytearray(), list[Kept]()
        self.pack = Struct(f"={id_bytes}s5q").pack

    def add(self, packed: bytes, told: Sequence[Kept]) -> None:
        self.packed += packed
        self.told += told

    def let_go(self) -> None:
        """Frees the answers in pieces: all at once would hold the interpreter, and hits, for milliseconds."""
        while self.told:
            del self.told[-_FREED_AT_ONCE:]


class HitRows:
    """Added to by the event loop, taken from by the writer's thread.

    Attributes:
        dropped: rows for which there was no room.
    """

    def __init__(self, max_rows: int) -> None:
        """`max_rows`: that wait for the writer."""
        self._max_rows = max_rows
        # Held for as long as it takes to pack the rows of a turn of the loop, or to take all away.
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, int], Hits] = {}
        self._rows = self.dropped = 0

    def add(self, hits: Sequence[AnsweredHit]) -> None:
        """At least one. All that hits pay for their rows: so it is two comprehensions, most often."""
        lane, id_bytes = hits[0].lane, len(hits[0].request_id)
        for hit in hits:
            if hit.lane is not lane or len(hit.request_id) != id_bytes:
                for one in hits:
                    self.add((one,))
                return
        with self._lock:
            if self._take_room(len(hits)):
                mine = self._of(lane, id_bytes)
                pack = mine.pack
                rows = [
                    pack(hit.request_id, hit.now_us, hit.total_us, hit.route_us, hit.lookup_us, hit.post_us)
                    for hit in hits
                ]
                # All that may fail is done: rows and answers stay as many.
                mine.add(b"".join(rows), [hit.kept for hit in hits])

    def add_batch(self, lane: Lane, request_id: bytes, kept: Sequence[Kept], numbers: Numbers5) -> None:
        """The hits of one request for many entities."""
        with self._lock:
            if self._take_room(len(kept)):
                mine = self._of(lane, len(request_id))
                mine.add(mine.pack(request_id, *numbers) * len(kept), kept)

    def take(self) -> list[Hits]:
        """All that wait; they leave."""
        with self._lock:
            taken, self._waiting, self._rows = self._waiting, {}, 0
        return list(taken.values())

    def _take_room(self, rows: int) -> bool:
        """Whether there is any for them; where there is none they count as dropped."""
        if self._rows >= self._max_rows:
            self.dropped += rows
            return False
        self._rows += rows
        return True

    def _of(self, lane: Lane, id_bytes: int) -> Hits:
        # By identity, which nobody else has for as long as the lane is kept here.
        key = (id(lane), id_bytes)
        if (found := self._waiting.get(key)) is None:
            found = self._waiting[key] = Hits(lane, id_bytes)
        return found
