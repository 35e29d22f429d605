"""Precomputed answers kept in the worker, ready to be told again, bounded in bytes."""

import sys
from collections.abc import Sequence
from contextlib import suppress

import cachebox

from online.api.answering.outcome import Outcome
from schemas.http import Source
from schemas.outputs import Answer

# Python's own for the object and its fields, beside the numbers and the rendered text.
_OBJECT_BYTES = 400
_NUMBER_BYTES = 32


class Kept:
    """One precomputed answer. `rendered`: as `documents.render` has it."""

    __slots__ = ("answer", "computed_at_ms", "etag", "generation", "outputs", "rendered")

    def __init__(
        self,
        outputs: Sequence[float],
        answer: Answer,
        computed_at_ms: int,
        generation: str | None,
        rendered: bytes,
        etag: bytes,
    ) -> None:
        self.outputs, self.answer = outputs, answer
        self.computed_at_ms, self.generation = computed_at_ms, generation
        self.rendered, self.etag = rendered, etag

    def __sizeof__(self) -> int:
        return _OBJECT_BYTES + 2 * _NUMBER_BYTES * len(self.outputs) + sys.getsizeof(self.rendered)

    def give(self, outcome: Outcome) -> None:
        """Makes it the answer."""
        outcome.source, outcome.outputs, outcome.answer = Source.PRECOMPUTED, self.outputs, self.answer
        outcome.computed_at_ms, outcome.generation = self.computed_at_ms, self.generation
        outcome.rendered, outcome.etag = self.rendered, self.etag


class L1:
    """`max_bytes` counts keys and what is kept; 0 keeps nothing."""

    def __init__(self, max_bytes: int) -> None:
        self._kept: cachebox.LRUCache[bytes, Kept] | None = (
            cachebox.LRUCache(0, maxmemory=max_bytes) if max_bytes else None
        )
        self.hits = self.misses = 0

    @property
    def keeps(self) -> bool:
        """Whether it keeps anything."""
        return self._kept is not None

    def get(self, key: bytes) -> Kept | None:
        if self._kept is None:
            return None
        found = self._kept.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def size(self) -> tuple[int, int]:
        """Entries, and their bytes as they are counted."""
        return (0, 0) if self._kept is None else (len(self._kept), self._kept.memory())

    def put(self, key: bytes, kept: Kept) -> None:
        if self._kept is not None:
            with suppress(OverflowError):  # larger than all that may be kept
                self._kept.insert(key, kept)

    def drop(self, key: bytes) -> None:
        if self._kept is not None:
            self._kept.pop(key, None)
