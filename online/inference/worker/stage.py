"""Where the next batch is stacked while others still execute.

Rows are copied into one set of arrays as they come, while devices read other sets. So when a device is free the
batch lies ready, and is one slice. Rows that were withdrawn or overtaken meanwhile leave a gap; then the batch is
stacked anew from the requests. Not thread-safe: the batcher holds its lock.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from online.inference.worker.jobs import Part
from schemas.wire import Tensor

Allocate = Callable[[tuple[int, ...], npt.DTypeLike], Tensor]

# Sets of arrays of shapes that were seen before are kept: pinned memory is slow to come by.
_MAX_SHAPES = 32


@dataclass(frozen=True, slots=True)
class Batch:
    """Parts and their stacked rows. `arrays` are what `tensors` are slices of; they go back to the stage."""

    parts: list[Part]
    tensors: list[Tensor]
    arrays: list[Tensor]

    @property
    def rows(self) -> int:
        return len(self.tensors[0])


class Stage:
    """Arrays of `max_rows` rows for each input, by shape; one set more than there are batches at work."""

    def __init__(self, max_rows: int, allocate: Allocate) -> None:
        self._max_rows, self._allocate = max_rows, allocate
        self._free: dict[Hashable, list[list[Tensor]]] = {}
        self._filling: list[Tensor] = []
        self._shape: Hashable = None
        self._stacked: list[Part] = []
        self._used = 0
        self._is_full = False
        self._is_behind = False

    def add(self, part: Part) -> None:
        """Stacks the part, which comes last of all that wait, where there is room for it."""
        if self._is_full or self._is_behind:
            return
        if self._used == 0 and self._shape != part.shape:
            self._turn_to(part)
        if part.shape != self._shape:
            return
        stop = self._used + part.rows
        if stop > self._max_rows:
            self._is_full = True
            return
        part.slot = self._used
        for array, rows in zip(self._filling, part.tensors(), strict=True):
            array[self._used : stop] = rows
        self._stacked.append(part)
        self._used = stop

    def catch_up(self, waiting: Iterable[Part]) -> None:
        """After a `take`: stacks what was left `waiting`, in order of service, up to one batch."""
        if not self._is_behind:
            return
        self._is_behind = False
        for part in waiting:
            self.add(part)
            if self._is_full:
                return

    def take(self, parts: list[Part]) -> Batch:
        """The batch of `parts`, whose arrays are its own until they are given back."""
        if not self._lie_in_order(parts):
            self._stack_anew(parts)
        rows = sum(part.rows for part in parts)
        batch = Batch(parts, [array[:rows] for array in self._filling], self._filling)
        for part in self._stacked:
            part.slot = -1
        self._filling, self._shape = [], None
        self._stacked, self._used, self._is_full, self._is_behind = [], 0, False, True
        return batch

    def give_back(self, batch: Batch) -> None:
        if len(self._free) >= _MAX_SHAPES and batch.parts[0].shape not in self._free:
            self._free.clear()
        self._free.setdefault(batch.parts[0].shape, []).append(batch.arrays)

    def _lie_in_order(self, parts: list[Part]) -> bool:
        at = 0
        for part in parts:
            if part.slot != at:
                return False
            at += part.rows
        return True

    def _stack_anew(self, parts: list[Part]) -> None:
        if self._shape != parts[0].shape:
            self._turn_to(parts[0])
        at = 0
        for part in parts:
            for array, rows in zip(self._filling, part.tensors(), strict=True):
                array[at : at + part.rows] = rows
            at += part.rows

    def _turn_to(self, part: Part) -> None:
        """Fills arrays of this part's shape from now on."""
        if self._filling:
            self._free.setdefault(self._shape, []).append(self._filling)
        self._shape = part.shape
        kept = self._free.get(part.shape)
        self._filling = (
            kept.pop()
            if kept
            else [self._allocate((self._max_rows, *tensor.shape[1:]), tensor.dtype) for tensor in part.job.tensors]
        )


def plain_arrays(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Tensor:
    """An `Allocate` of ordinary memory."""
    array: Tensor = np.zeros(shape, dtype)
    return array
