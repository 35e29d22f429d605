"""Fields and values of whole buckets as bytes, made for thousands of rows at a time and not one by one.

The bytes of a bucket in Redis's protocol are what its HSET ends with and, as a listpack keeps the order in which
it was filled, what HGETALL then answers.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.keys import ESCAPE, MAX_PLAIN_FIELD_BYTES, field_of

# Rows that are made into bytes at a time, about: enough to make each cheap, few enough that a load that is to be
# slow is also smooth.
_SLICE_ROWS = 5_000
COLUMNS = ["bucket", "field", "value"]
_EMPTY = pa.scalar(b"", pa.binary())
Offsets = npt.NDArray[np.int32]


class Joined(NamedTuple):
    """(n,) pieces one behind the other: piece i lies from `offsets[i]` to `offsets[i + 1]`."""

    offsets: Offsets
    data: memoryview

    def piece(self, begin: int, end: int) -> memoryview:
        """The bytes of rows `begin` to `end`."""
        return self.data[self.offsets[begin] : self.offsets[end]]


class WireBucket(NamedTuple):
    """A bucket that is to hold `fields` fields. `body`: fields and values as Redis's protocol has them."""

    number: int
    fields: int
    body: bytes | memoryview


class Slice(NamedTuple):
    """Rows of whole buckets, ascending.

    Attributes:
        buckets: (b,) numbers.
        ends: (b,) row behind each bucket's last.
        fields, values: (n,) binary.
    """

    buckets: list[int]
    ends: list[int]
    fields: pa.BinaryArray
    values: pa.BinaryArray


def fields_of(entities: pa.Array) -> pa.BinaryArray:
    """(n,) fields of text or binary entities, as `schemas.keys.field_of`."""
    found = pc.cast(entities, pa.binary())
    is_escaped = pc.or_(
        pc.greater(pc.binary_length(found), MAX_PLAIN_FIELD_BYTES),
        pc.equal(pc.binary_slice(found, 0, len(ESCAPE)), pa.scalar(ESCAPE, pa.binary())),
    )
    if not pc.any(is_escaped).as_py():
        return found
    return pa.array([field_of(entity) for entity in found.to_pylist()], pa.binary())


def slices(tables: Iterable[pa.Table]) -> Iterator[Slice]:
    """Whole buckets of tables that are sorted by bucket and field; a bucket may begin in one and end in the next.

    Args:
        tables: `COLUMNS`, the latter two binary.
    """
    rest: pa.Table | None = None
    for table in tables:
        if not table.num_rows:
            continue
        rest = table if rest is None else pa.concat_tables([rest, table])
        numbers = rest["bucket"].to_numpy()
        ends = np.flatnonzero(np.diff(numbers)) + 1  # the last bucket may go on
        yield from _sliced(rest, numbers, ends)
        rest = rest.slice(ends[-1] if len(ends) else 0)
    if rest is not None and rest.num_rows:
        yield from _sliced(rest, rest["bucket"].to_numpy(), np.array([rest.num_rows]))


def score_slices(scores: pa.Table) -> Iterator[Slice]:
    """Of a part, in the columns of `schemas.arrow.SCORES`."""
    fields = pa.chunked_array([fields_of(chunk) for chunk in scores["entity"].chunks], pa.binary())
    yield from slices([pa.table([scores["bucket"], fields, scores["packed"]], names=COLUMNS)])


def wire_buckets(rows: Slice, first: int | None = None) -> list[WireBucket]:
    """The buckets of a slice; those from `first` on that have no rows are among them, empty."""
    body, found = wire_bytes(rows), list[WireBucket]()
    for number, begin, end in zip(rows.buckets, [0, *rows.ends[:-1]], rows.ends, strict=True):
        if first is not None:
            found += empty_buckets(range(first, number))
            first = number + 1
        found.append(WireBucket(number, end - begin, body.piece(begin, end)))
    return found


def empty_buckets(numbers: range) -> list[WireBucket]:
    return [WireBucket(number, 0, b"") for number in numbers]


def _sliced(table: pa.Table, numbers: npt.NDArray[Any], ends: npt.NDArray[Any]) -> Iterator[Slice]:
    begin = place = 0
    while place < len(ends):
        past = max(place + 1, int(np.searchsorted(ends, begin + _SLICE_ROWS, side="right")))
        here = ends[place:past]
        rows = table.slice(begin, int(here[-1]) - begin).combine_chunks()
        columns = [pa.concat_arrays(rows[name].chunks) for name in ("field", "value")]
        yield Slice(numbers[here - 1].tolist(), (here - begin).tolist(), *columns)
        begin, place = int(here[-1]), past


def wire_bytes(rows: Slice) -> Joined:
    """Each field and its value as two bulk strings.

    Source: the Redis serialization protocol: `$LENGTH\\r\\nBYTES\\r\\n`.
    """
    parts = [b"$", _decimal(rows.fields), b"\r\n", rows.fields, b"\r\n$", _decimal(rows.values), b"\r\n"]
    return _join([*parts, rows.values, b"\r\n"])


def digest_bytes(rows: Slice) -> Joined:
    """Each field and its value as `batch_scoring.checksum.packed_digest` wants them."""
    return _join([_big_endian(rows.fields, ">u2"), rows.fields, _big_endian(rows.values, ">u4"), rows.values])


def _join(columns: list[Any]) -> Joined:
    scalars = [pa.scalar(one, pa.binary()) if isinstance(one, bytes) else one for one in columns]
    joined = pc.binary_join_element_wise(*scalars, _EMPTY)
    _, offsets, data = joined.buffers()
    count = len(joined) + 1
    return Joined(np.frombuffer(offsets, np.int32, count, joined.offset * 4), memoryview(data or b""))


def _decimal(texts: pa.BinaryArray) -> pa.BinaryArray:
    return pc.cast(pc.cast(pc.binary_length(texts), pa.string()), pa.binary())


def _big_endian(texts: pa.BinaryArray, dtype: str) -> pa.BinaryArray:
    lengths = pc.binary_length(texts).to_numpy().astype(dtype)
    offsets = np.arange(0, lengths.nbytes + 1, lengths.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(lengths)])
