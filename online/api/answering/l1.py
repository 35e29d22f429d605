"""Precomputed answers kept in the worker, ready to be told again, bounded in bytes."""

import sys
from collections.abc import Sequence

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

    def __init__(self, outcome: Outcome, rendered: bytes) -> None:
        assert outcome.outputs is not None
        assert outcome.answer is not None
        self.outputs: Sequence[float] = outcome.outputs
        self.answer: Answer = outcome.answer
        self.computed_at_ms, self.generation = outcome.computed_at_ms, outcome.generation
        self.rendered, self.etag = rendered, outcome.etag

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
        self.hits = 0

    def get(self, key: bytes) -> Kept | None:
        if self._kept is None:
            return None
        found = self._kept.get(key)
        self.hits += found is not None
        return found

    def put(self, outcome: Outcome, rendered: bytes) -> None:
        """Keeps the answer, where it may be kept."""
        if self._kept is not None and outcome.keep_as is not None:
            self._kept.insert(outcome.keep_as, Kept(outcome, rendered))

    def drop(self, key: bytes) -> None:
        if self._kept is not None:
            self._kept.pop(key, None)
