"""Rows of a log, and columns of them: in the order of the log's schema, and of one length.

Columns of many rows are of few kinds, each of which says in a step what it has, to metrics and to Arrow.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Row = tuple[object, ...]
Columns = list[Sequence[object]]
Int64Array = npt.NDArray[np.int64]


class Same(Sequence[object]):
    """The same value in all rows."""

    __slots__ = ("_rows", "value")

    def __init__(self, value: object, rows: int) -> None:
        self.value, self._rows = value, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, place: Any) -> Any:
        return self.value

    def __iter__(self) -> Iterator[object]:
        return iter([self.value] * self._rows)

    def count(self, value: object) -> int:
        return self._rows if self.value == value else 0


class Numbers(Sequence[object]):
    """`array`: (rows,) int64, or float64 with NaN for None."""

    __slots__ = ("array",)

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        value = self.array[place].item()
        return None if value != value else value  # NaN


class Coded(Sequence[object]):
    """One of a few values in each row: `values[codes[row]]`. `codes`: (rows,) int64."""

    __slots__ = ("codes", "values")

    def __init__(self, values: Sequence[object], codes: Int64Array) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: Any) -> Any:
        return self.values[self.codes[place]]


class Texts(Sequence[object]):
    """Texts one after another in `data`, in UTF-8; row r ends where `ends[r]` says. `ends`: (rows,) int64."""

    __slots__ = ("data", "ends")

    def __init__(self, data: bytes | bytearray, ends: Int64Array) -> None:
        self.data, self.ends = data, ends

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: Any) -> Any:
        begin = self.ends[place - 1] if place else 0
        return self.data[begin : self.ends[place]].decode(errors="backslashreplace")
