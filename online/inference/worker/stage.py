"""Where the next batch is stacked while the last one still executes.

Two sets of arrays: rows are copied into one as they come, the device reads the other. So when the device is free
the batch lies ready, and is one slice. Rows that were withdrawn or overtaken meanwhile leave a gap; then the batch
is stacked anew from the requests. Not thread-safe: the batcher holds its lock.
"""

from collections.abc import Hashable, Iterable

import numpy as np

from online.inference.worker.jobs import Part
from schemas.wire import Tensor


class Stage:
    """Arrays of `max_rows` rows for each input, made for the first shape, and again when the shape changes."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._filling: list[Tensor] = []
        self._executing: list[Tensor] = []
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
            self._make(part)
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

    def take(self, parts: list[Part]) -> list[Tensor]:
        """The stacked rows of `parts`, one array an input, valid until the `take` after the next."""
        rows = sum(part.rows for part in parts)
        if not self._lie_in_order(parts):
            self._stack_anew(parts)
        taken = [array[:rows] for array in self._filling]
        for part in self._stacked:
            part.slot = -1
        self._filling, self._executing = self._executing, self._filling
        self._stacked, self._used, self._is_full, self._is_behind = [], 0, False, True
        return taken

    def _lie_in_order(self, parts: list[Part]) -> bool:
        at = 0
        for part in parts:
            if part.slot != at:
                return False
            at += part.rows
        return True

    def _stack_anew(self, parts: list[Part]) -> None:
        if self._shape != parts[0].shape:
            self._make(parts[0])
        at = 0
        for part in parts:
            for array, rows in zip(self._filling, part.tensors(), strict=True):
                array[at : at + part.rows] = rows
            at += part.rows

    def _make(self, part: Part) -> None:
        # New arrays, not resized ones: the device may still read the old.
        self._shape = part.shape
        for arrays in (self._filling, self._executing):
            arrays[:] = [
                np.zeros((self._max_rows, *tensor.shape[1:]), tensor.dtype) for tensor in part.job.tensors
            ]
