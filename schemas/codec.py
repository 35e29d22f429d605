"""Packed predictions: the value of a field in a generation, and of a written-back live result.

Layout of codec 1, little-endian, 13 bytes and four for each output:

    u8   codec version
    4s   fingerprint of the entity, blake2b-4
    u16  ordinal of the generation; 0 for a live result
    u48  time of computation, ms since 1970 by Redis's clock
    f32  outputs, raw after calibration, as many as the `stored_width` of the model's output specification

Labels, thresholds and rules are applied when answering, so a change of threshold needs no new generation.
A change of codec is a new generation, never a rewrite. Up to 12 outputs, a value has at most 64 bytes and its
bucket is a listpack; with more, a hashtable.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from math import isfinite
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

CODEC_VERSION = 1
LIVE_ORDINAL = 0
MAX_ORDINAL = 0xFFFF
_HEAD = Struct("<B4sHIH")  # the u48 is split into its low 32 and high 16 bits
HEAD_BYTES = _HEAD.size
_FINGERPRINT_BYTES = 4
_FINGERPRINT = slice(1, 1 + _FINGERPRINT_BYTES)
_MAX_MS = 1 << 48

Float32Array = npt.NDArray[np.float32]


class CorruptValue(ValueError):
    """A stored value that cannot be what its key says: to a reader it is a miss of that entity."""


class ForeignValue(CorruptValue):
    """A well-formed value that belongs to another entity or generation."""


class Prediction(NamedTuple):
    """What a packed value holds: `outputs` are K numbers of float32, `computed_at_ms` by Redis's clock."""

    ordinal: int
    computed_at_ms: int
    outputs: Sequence[float]


@lru_cache(maxsize=256)
def _layout(outputs: int) -> Struct:
    """Of a whole value: one call is cheaper than a view on few numbers."""
    return Struct(f"{_HEAD.format}{outputs}f")


def fingerprint(entity: bytes) -> bytes:
    return blake2b(entity, digest_size=_FINGERPRINT_BYTES).digest()


def pack(entity: bytes, ordinal: int, computed_at_ms: int, outputs: Float32Array) -> bytes:
    """Packs one prediction.

    Args:
        entity: the entity's UTF-8 bytes.
        ordinal: of the generation, 1 to 65,535; `LIVE_ORDINAL` for a live result.
        outputs: (K,) float32, raw after calibration.

    Raises:
        ValueError: an output that is not finite (those are never stored), or a number out of range.
    """
    return pack_rows([entity], ordinal, computed_at_ms, outputs.reshape(1, -1))[0]


def pack_rows(entities: Sequence[bytes], ordinal: int, computed_at_ms: int, outputs: Float32Array) -> list[bytes]:
    """Packs (n, K) outputs of n entities; otherwise as `pack`."""
    low, high = _checked(entities, ordinal, computed_at_ms, outputs)
    body = np.ascontiguousarray(outputs, dtype="<f4").tobytes()
    width = 4 * outputs.shape[1]
    return [
        _HEAD.pack(CODEC_VERSION, fingerprint(entity), ordinal, low, high) + body[i * width : (i + 1) * width]
        for i, entity in enumerate(entities)
    ]


def pack_matrix(
    entities: Sequence[bytes], ordinal: int, computed_at_ms: int, outputs: Float32Array
) -> npt.NDArray[np.uint8]:
    """As `pack_rows`, the bytes of a value in each row: a fifth of the time where rows are many."""
    low, high = _checked(entities, ordinal, computed_at_ms, outputs)
    rows, width = outputs.shape
    prints = b"".join(map(fingerprint, entities))
    packed = np.empty((rows, HEAD_BYTES + 4 * width), dtype=np.uint8)
    packed[:, :HEAD_BYTES] = np.frombuffer(_HEAD.pack(CODEC_VERSION, bytes(4), ordinal, low, high), np.uint8)
    packed[:, _FINGERPRINT] = np.frombuffer(prints, np.uint8).reshape(rows, _FINGERPRINT_BYTES)
    packed[:, HEAD_BYTES:] = np.ascontiguousarray(outputs, dtype="<f4").view(np.uint8)
    return packed


def _checked(
    entities: Sequence[bytes], ordinal: int, computed_at_ms: int, outputs: Float32Array
) -> tuple[int, int]:
    """The low 32 and the high 16 bits of the time. Raises ValueError, as `pack`."""
    if not 0 <= ordinal <= MAX_ORDINAL or not 0 <= computed_at_ms < _MAX_MS:
        raise ValueError(f"ordinal {ordinal} or time {computed_at_ms} ms does not fit the codec")
    if outputs.ndim != 2 or len(outputs) != len(entities):
        raise ValueError(f"outputs of shape {outputs.shape} for {len(entities)} entities")
    if not np.isfinite(outputs).all():
        raise ValueError("an output is not finite")
    return computed_at_ms & 0xFFFFFFFF, computed_at_ms >> 32


def unpack(value: bytes, entity: bytes, ordinal: int, outputs: int) -> Prediction:
    """Unpacks one prediction.

    Args:
        entity: whose value this must be.
        ordinal: of the generation it was read from; `LIVE_ORDINAL` for a live result.
        outputs: how many, the `stored_width` of the model's output specification.

    Raises:
        ForeignValue: it belongs to another entity or generation.
        CorruptValue: wrong length, a codec this code does not know, or an output that is not finite.
    """
    layout = _layout(outputs)
    if len(value) < HEAD_BYTES or value[0] != CODEC_VERSION:
        raise CorruptValue(f"codec {value[0] if value else 'none'} of {len(value)} bytes, not {CODEC_VERSION}")
    if len(value) != layout.size:
        raise CorruptValue(f"{len(value)} bytes instead of {layout.size}")
    _, print_, found_ordinal, low, high, *numbers = layout.unpack(value)
    if print_ != fingerprint(entity):
        raise ForeignValue("the value of another entity")
    if found_ordinal != ordinal:
        raise ForeignValue(f"a value of generation ordinal {found_ordinal}, not {ordinal}")
    # In doubles, whose sum of any float32 is finite.
    if not isfinite(sum(numbers)):
        raise CorruptValue("an output is not finite")
    return Prediction(found_ordinal, high << 32 | low, numbers)
