"""Precomputed answers kept in the worker, ready to be told again, bounded in bytes."""

import sys
from collections import OrderedDict
from collections.abc import Sequence

from online.api.answering.outcome import Outcome
from schemas.http import Source
from schemas.outputs import Answer

# Python's own for the object, its fields and its place in L1, beside the key, the numbers and the rendered text.
_OBJECT_BYTES = 300
_NUMBER_BYTES = 32


class Kept:
    """One precomputed answer. `rendered`: as `documents.render` has it."""

    __slots__ = ("answer", "computed_at_ms", "entity", "etag", "generation", "outputs", "rendered")

    def __init__(
        self,
        entity: bytes,
        outputs: Sequence[float],
        answer: Answer,
        computed_at_ms: int,
        generation: str | None,
        rendered: bytes,
        etag: bytes,
    ) -> None:
        self.entity, self.outputs, self.answer = entity, outputs, answer
        self.computed_at_ms, self.generation = computed_at_ms, generation
        self.rendered, self.etag = rendered, etag

    def give(self, outcome: Outcome) -> None:
        """Makes it the answer."""
        outcome.source, outcome.outputs, outcome.answer = Source.PRECOMPUTED, self.outputs, self.answer
        outcome.computed_at_ms, outcome.generation = self.computed_at_ms, self.generation
        outcome.rendered, outcome.etag = self.rendered, self.etag


class L1:
    """Least recently used. `max_bytes` counts keys and what is kept; 0 keeps nothing. For one thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # What was asked for least recently is first.
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._bytes = 0
        self.hits = self.misses = 0

    @property
    def keeps(self) -> bool:
        """Whether it keeps anything."""
        return self._max_bytes > 0

    def get(self, key: bytes) -> Kept | None:
        if not self._max_bytes:
            return None
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
            self._kept.move_to_end(key)
        return found

    def size(self) -> tuple[int, int]:
        """Entries, and their bytes as they are counted."""
        return len(self._kept), self._bytes

    def put(self, key: bytes, kept: Kept) -> None:
        """What is larger than all that may be kept is not."""
        self.drop(key)
        size_bytes = _entry_bytes(key, kept)
        if size_bytes > self._max_bytes:
            return
        self._kept[key] = kept
        self._bytes += size_bytes
        while self._bytes > self._max_bytes:
            oldest, gone = self._kept.popitem(last=False)
            self._bytes -= _entry_bytes(oldest, gone)

    def drop(self, key: bytes) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self._bytes -= _entry_bytes(key, gone)


def _entry_bytes(key: bytes, kept: Kept) -> int:
    numbers = 2 * _NUMBER_BYTES * len(kept.outputs)
    texts = sum(map(sys.getsizeof, (key, kept.entity, kept.rendered)))
    return _OBJECT_BYTES + numbers + texts
