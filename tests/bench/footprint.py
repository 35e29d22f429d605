"""Measures bytes an entity takes in Redis, by what the model gives: `python -m tests.bench.footprint`.

Starts a server, writes 100,000 entities (fewer of wide ones) as `publish` does, in buckets, and reads how much
`used_memory` has grown: keys, objects, tables and the allocator's rounding are in it. Beside it stands what the
publisher's memory gate expects, and what two other layouts take: one string an entity, and values cut into fields
of 64 bytes, so that buckets stay listpacks.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from redis import Redis

from batch_scoring.publishing.sizes import fields_bytes
from schemas.codec import pack_rows
from schemas.keys import MAX_LISTPACK_BYTES, bucket_count, bucket_of, bucket_prefix, field_of
from tests.support.redis_server import RedisServer

PREFIX = bucket_prefix("delay", "7", "20261128T0200Z-1").encode()
KINDS = {
    "a scalar": 1,
    "a label and its probability": 1,
    "a label and 2 probabilities": 2,
    "top-5 of many labels": 10,
    "a vector of 12": 12,
    "top-10 of many labels": 20,
    "a vector of 64": 64,
    "a vector of 384": 384,
}
_COMMANDS_A_WRITE = 200
_MOST_NUMBERS = 4_000_000
_ROW = "{:30} {:>4} {:>6} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9}\n"

Fields = Sequence[tuple[bytes, bytes]]
Command = tuple[bytes, ...]


class Measured(NamedTuple):
    """Of one kind of output: bytes an entity. `cut` is 0 where the value needs no cutting."""

    name: str
    numbers: int
    value: int
    entities: int
    encoding: str
    bucketed: float
    expected: float
    string: float
    cut: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.footprint", description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000, help="of narrow outputs; 100,000 unless told")
    parser.add_argument("--server", help="a redis-server program; Valkey of the wheel unless told")
    parser.add_argument("--bucket-only", action="store_true", help="leave out the two other layouts")
    given = parser.parse_args(argv)
    with RedisServer(program=given.server) as server, Redis.from_url(server.url) as redis:
        about = redis.info()
        name = (
            f"Valkey {about['valkey_version']}" if "valkey_version" in about else f"Redis {about['redis_version']}"
        )
        sys.stdout.write(f"{name}, {about['mem_allocator']}; bytes an entity, ids of 14 bytes\n")
        sys.stdout.write(
            _ROW.format("output", "W", "value", "entities", "encoding", "bucketed", "expected", "string", "cut")
        )
        for kind, width in KINDS.items():
            found = measure(redis, kind, width, given.entities, not given.bucket_only)
            numbers = (f"{number:.1f}" if number else "" for number in found[5:])
            sys.stdout.write(_ROW.format(*found[:5], *numbers))
            sys.stdout.flush()
    return 0


def measure(redis: "Redis[bytes]", kind: str, width: int, most_entities: int, others: bool = False) -> Measured:
    """Of `width` stored numbers. Empties the server."""
    count = max(1, min(most_entities, _MOST_NUMBERS // width))
    # As many digits as the whole range has, so that no id is shorter.
    entities = [b"UA%04d-%03d-%03d" % (i % 10_000, i // 10_000, i % 997) for i in range(count)]
    outputs = np.random.default_rng(0).random((count, width)).astype(np.float32)
    rows = list(zip(entities, pack_rows(entities, 7, 1_790_000_000_123, outputs), strict=True))
    bucketed = _grown(redis, lambda: _hashes(rows, bucket_count(count)), count)
    encoding = bytes(redis.object("ENCODING", redis.randomkey())).decode()
    size = len(rows[0][1])
    expected = fields_bytes(np.full(count, len(entities[0])), np.full(count, size)) / count
    string = (
        _grown(redis, lambda: ((b"SET", PREFIX + field, value) for field, value in rows), count) if others else 0
    )
    cut = _grown(redis, lambda: _cut(rows), count) if others and size > MAX_LISTPACK_BYTES else 0
    return Measured(kind, width, size, count, encoding, bucketed, expected, string, cut)


def _hashes(rows: Fields, buckets: int) -> Iterator[Command]:
    found: dict[int, list[bytes]] = {}
    for entity, value in rows:
        found.setdefault(bucket_of(entity, buckets), []).extend((field_of(entity), value))
    return ((b"HSET", PREFIX + b"%d" % bucket, *words) for bucket, words in found.items())


def _cut(rows: Fields) -> Iterator[Command]:
    """Each value in fields of 64 bytes in one bucket, named by the entity and the part's number."""
    parts = range(0, len(rows[0][1]), MAX_LISTPACK_BYTES)
    buckets = bucket_count(len(rows) * len(parts))
    found: dict[int, list[bytes]] = {}
    for entity, value in rows:
        words = found.setdefault(bucket_of(entity, buckets), [])
        for number, at in enumerate(parts):
            words += (entity + bytes([number]), value[at : at + MAX_LISTPACK_BYTES])
    return ((b"HSET", PREFIX + b"%d" % bucket, *words) for bucket, words in found.items())


def _grown(redis: "Redis[bytes]", commands: Callable[[], Iterator[Command]], entities: int) -> float:
    redis.execute_command("FLUSHALL", "SYNC")  # what is freed in the background would count as if never written
    before = int(redis.info("memory")["used_memory"])
    pipe = redis.pipeline(transaction=False)
    for number, command in enumerate(commands(), 1):
        pipe.execute_command(*command)
        if number % _COMMANDS_A_WRITE == 0:
            pipe.execute()
    pipe.execute()
    return (int(redis.info("memory")["used_memory"]) - before) / entities


if __name__ == "__main__":
    raise SystemExit(main())
