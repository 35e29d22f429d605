"""One checksum for score files and for what Redis holds: a sum over fields, so that order does not matter."""

from hashlib import blake2b

_MODULUS = 1 << 64


def field_digest(field: bytes, value: bytes) -> int:
    """64 bits of one field and its value. The length keeps (`ab`, `c`) apart from (`a`, `bc`)."""
    return int.from_bytes(blake2b(len(field).to_bytes(2, "big") + field + value, digest_size=8).digest(), "big")


def add(total: int, digest: int) -> int:
    return (total + digest) % _MODULUS


def as_text(total: int) -> str:
    return f"{total:016x}"
