"""How much memory entities will take in Redis, told from the lengths of their fields and values."""

from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.keys import MAX_LISTPACK_BYTES

# A field of a listpack: two headers, and its share of the bucket's key and object.
_LISTPACK_OVERHEAD_BYTES = 13
# A field of a hashtable: its entry, and its share of the table and of the bucket's key and object.
_HASHTABLE_OVERHEAD_BYTES = 32 + 14

Lengths = npt.NDArray[np.integer[Any]]


def fields_bytes(fields: Lengths, values: Lengths) -> int:
    """About how many bytes some entities take in buckets, all of Redis's overhead counted.

    One field or value over 64 bytes turns its bucket into a hashtable; where there is one, all are taken to be in
    such buckets. By the size classes of jemalloc, with which Debian's Redis is built; Valkey 9 takes less.
    `tests.bench.footprint` measures both.

    Args:
        fields: (n,) their fields' bytes.
        values: (n,) their values' bytes.
    """
    if not len(fields):
        return 0
    if max(int(fields.max()), int(values.max())) <= MAX_LISTPACK_BYTES:
        return int(fields.sum() + values.sum()) + _LISTPACK_OVERHEAD_BYTES * len(fields)
    strings = _string_bytes(fields) + _string_bytes(values)
    return int(strings.sum()) + _HASHTABLE_OVERHEAD_BYTES * len(fields)


def _string_bytes(lengths: Lengths) -> Lengths:
    """(n,) bytes that the allocator gives for strings of these lengths.

    Source: jemalloc 5.3, size classes: multiples of 16 up to 128, then four to each doubling. Redis 7.0, sds: a
    header of 1, 3 or 5 bytes, and a zero at the end.
    """
    asked = lengths + np.select([lengths < 32, lengths < 256], [2, 4], 6)
    doubling = np.floor(np.log2(asked - 1)).astype(np.int64)
    unit = np.maximum(16, 1 << np.maximum(doubling - 2, 0))
    given: Lengths = -(-asked // unit) * unit
    return given
