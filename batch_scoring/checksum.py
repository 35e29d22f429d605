"""One checksum for score files and for what Redis holds: a sum over buckets, in whatever order they come."""

from collections.abc import Sequence
from hashlib import blake2b

_MODULUS = 1 << 64


def bucket_digest(bucket: int, fields: Sequence[bytes], values: Sequence[bytes]) -> int:
    """64 bits of one bucket's fields and values.

    One hash for the whole bucket: one for each field would cost more than all else that is done with it. Lengths
    keep (`ab`, `c`) apart from (`a`, `bc`).

    Args:
        fields: ascending, so that the order in which a server gives them does not matter.
        values: beside them.
    """
    parts: list[bytes] = []
    for field, value in zip(fields, values, strict=True):
        parts += (len(field).to_bytes(2, "big"), field, len(value).to_bytes(4, "big"), value)
    return packed_digest(bucket, b"".join(parts))


def packed_digest(bucket: int, packed: bytes | memoryview) -> int:
    """As `bucket_digest`, of fields and values each behind its length already (2 and 4 bytes, big-endian)."""
    digest = blake2b(bucket.to_bytes(4, "big"), digest_size=8)
    digest.update(packed)
    return int.from_bytes(digest.digest(), "big")


def add(total: int, digest: int) -> int:
    return (total + digest) % _MODULUS


def as_text(total: int) -> str:
    return f"{total:016x}"
