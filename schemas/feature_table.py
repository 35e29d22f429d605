"""The online feature table: packed raw records of entities, in Redis and in a snapshot file beside it.

A packed record is, little-endian, `u8 version | 4s fingerprint of the entity | JSON array`, the array in the
order of the feature names that the routes document gives for the table. Numbers are written as the shortest text
of their float32, so that a reader gets that very float32 back. Values are raw: the transform of each version is
applied when answering, so one table serves all of them.

The snapshot is an Arrow IPC file with two columns, `key` (uint64, ascending) and `record` (binary), which workers
map into memory: live answers then need no Redis.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import orjson

from schemas.codec import CorruptValue, ForeignValue, fingerprint
from schemas.features import canonical_number

RECORD_VERSION = 1
_HEAD_BYTES = 5
_INT_EXACT = 1 << 24


def pack_record(entity: bytes, values: Sequence[object]) -> bytes:
    """Packs one entity's raw values, in the table's order; NaN and null become null.

    Raises:
        ValueError: a value that is no number, text, truth value or null.
    """
    return bytes((RECORD_VERSION,)) + fingerprint(entity) + orjson.dumps([_plain(value) for value in values])


def unpack_record(packed: bytes | memoryview, entity: bytes, features: Sequence[str]) -> Mapping[str, object]:
    """The raw record of `entity`.

    Raises:
        ForeignValue: it belongs to another entity.
        CorruptValue: it is not a packed record of these features.
    """
    raw = bytes(packed)
    if len(raw) < _HEAD_BYTES or raw[0] != RECORD_VERSION:
        raise CorruptValue("not a packed record of a version this program knows")
    if raw[1:_HEAD_BYTES] != fingerprint(entity):
        raise ForeignValue("the record of another entity")
    try:
        values = orjson.loads(raw[_HEAD_BYTES:])
    except orjson.JSONDecodeError:
        raise CorruptValue("a packed record that is not JSON") from None
    if not isinstance(values, list) or len(values) != len(features):
        raise CorruptValue(f"a packed record without the {len(features)} values of its table")
    return dict(zip(features, values, strict=True))


def snapshot_key(entity: bytes) -> int:
    """The key an entity has in the snapshot. Two entities may share one: the fingerprint tells them apart."""
    return int.from_bytes(fingerprint(entity) + fingerprint(entity[::-1]), "big")


def snapshot_places(keys: npt.NDArray[np.uint64], entities: Sequence[bytes]) -> list[range]:
    """The rows of the snapshot, whose ascending keys these are, that may be each entity's."""
    sought = np.array([snapshot_key(entity) for entity in entities], np.uint64)
    first, after = (np.searchsorted(keys, sought, side).tolist() for side in ("left", "right"))
    return list(map(range, first, after))


def _plain(value: object) -> bool | int | float | str | None:
    if value is None or isinstance(value, (bool, str)):
        return value
    number = canonical_number(value)
    if number is None:
        if isinstance(value, (float, np.floating)) and np.isnan(value):
            return None
        raise ValueError(f"{ascii(value)[:80]} is no value of a feature")
    if number.is_integer() and abs(number) <= _INT_EXACT:
        return int(number)
    return float(str(np.float32(number)))
