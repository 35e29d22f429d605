"""Every Redis key, in one place. Standard library only.

Keys that one script or transaction touches together share a slot on a cluster by a hash tag, `{model}`;
all others spread over the slots. Buckets spread the fields of a generation so that each hash stays a listpack.
"""

from hashlib import blake2b
from zlib import crc32

REPLICAS_KEY = "hs:replicas"
# A longer field or value turns a listpack into a hashtable (hash-max-listpack-value: Redis 7.0, Valkey 9.1).
MAX_LISTPACK_BYTES = 64
MAX_PLAIN_FIELD_BYTES = MAX_LISTPACK_BYTES
ESCAPE = b"\x00"
_ESCAPE_DIGEST_BYTES = 16
# Mean fields of a bucket, so that nearly all buckets stay under hash-max-listpack-entries (512).
MEAN_BUCKET_FIELDS = 96


def routes_key(model: str) -> str:
    return f"hs:{{{model}}}:routes"


def run_key(model: str) -> str:
    return f"hs:{{{model}}}:run"


def history_key(model: str) -> str:
    return f"hs:{{{model}}}:history"


def routes_channel(model: str) -> str:
    """The pub/sub channel that says a model's routes document has changed."""
    return f"hs:{{{model}}}:changed"


def bucket_prefix(model: str, version: str, generation: str) -> str:
    """Append the bucket's number."""
    return f"hs:{model}:g:{version}:{generation}:"


def bucket_key(model: str, version: str, generation: str, bucket: int) -> str:
    return f"{bucket_prefix(model, version, generation)}{bucket}"


def generation_manifest_key(model: str, version: str, generation: str) -> str:
    return f"{bucket_prefix(model, version, generation)}manifest"


def feature_prefix(model: str, table: str) -> str:
    """Append the bucket's number."""
    return f"hs:{model}:f:{table}:"


def feature_key(model: str, table: str, bucket: int) -> str:
    return f"{feature_prefix(model, table)}{bucket}"


def live_key(model: str, version: str, entity: bytes) -> bytes:
    return f"hs:{model}:l:{version}:".encode() + entity


def input_key(model: str, version: str, digest: str) -> str:
    return f"hs:{model}:i:{version}:{digest}"


def invalidations_key(model: str) -> str:
    return f"hs:{model}:x"


def lease_prefix(model: str, version: str) -> bytes:
    """Append the entity: who holds the key renews the entity's answer."""
    return f"hs:{model}:r:{version}:".encode()


def bucket_count(rows: int) -> int:
    """Buckets for `rows` entities: at least one, 96 fields on average."""
    return max(1, -(-rows // MEAN_BUCKET_FIELDS))


def bucket_of(entity: bytes, buckets: int) -> int:
    """The entity's bucket; the same number as Spark's `pmod(crc32(entity), buckets)`."""
    return crc32(entity) % buckets


def field_of(entity: bytes) -> bytes:
    """The entity's field in its bucket: itself, or where that is long or begins with 0x00 an escape.

    No plain field begins with 0x00, so no id can be equal to another's escape.
    """
    if len(entity) > MAX_PLAIN_FIELD_BYTES or entity.startswith(ESCAPE):
        return ESCAPE + blake2b(entity, digest_size=_ESCAPE_DIGEST_BYTES).digest()
    return entity
