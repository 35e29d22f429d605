"""Bytes that an entity takes in Redis, all of Redis's overhead counted, as the product's writer lays them out."""

import logging
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from redis import Redis

from schemas.codec import pack_rows
from schemas.keys import bucket_count, bucket_prefix
from tests.bench.hits.entities import GENERATION, MODEL, VERSION, entity_of
from tests.bench.hits.known import load
from tests.support.redis_server import RedisServer, debian_redis

log = logging.getLogger(__name__)

# Stored numbers of each kind of output: of a label, the probability of each of two; of a top-5, label and score.
SMALL = {"scalar": 1, "label": 2}
WIDE = {"top5": 10, "vector64": 64}
_ASKED_BUCKETS = 500
_SETTLE_S = 0.3  # the writer's buffers are freed


@dataclass(frozen=True)
class Footprint:
    """`listpack_share`: of the buckets; the others have become hash tables."""

    server: str
    output: str
    entities: int
    bytes_per_entity: float
    listpack_share: float
    load_s: float


def measure_memory(entities: int, wide_entities: int) -> list[Footprint]:
    """On Valkey, and on Debian's Redis where there is one."""
    found = []
    for server, program in programs().items():
        for output, width in {**SMALL, **WIDE}.items():
            count = entities if output in SMALL else wide_entities
            with RedisServer(program=program) as redis:
                found.append(_footprint(redis.url, server, output, count, width))
            log.info("memory: %s: %s: %.1f bytes an entity", server, output, found[-1].bytes_per_entity)
    return found


def programs() -> dict[str, str | None]:
    """By name; None is the default, Valkey."""
    known: dict[str, str | None] = {"valkey": None}
    with suppress(AssertionError):
        known["redis"] = debian_redis()
    if len(known) == 1:
        log.warning("memory: Debian's redis-server is not installed and is left out")
    return known


def _footprint(url: str, server: str, output: str, entities: int, width: int) -> Footprint:
    ids = [entity_of(number).encode() for number in range(entities)]
    outputs = np.random.default_rng(0).random((entities, width), dtype=np.float32)
    buckets, prefix = bucket_count(entities), bucket_prefix(MODEL, VERSION, GENERATION)
    with Redis.from_url(url) as redis:
        before = _used_memory(redis)
        began_s = time.perf_counter()
        load(url, prefix, ids, pack_rows(ids, 1, 1000 * int(time.time()), outputs), buckets)
        load_s = time.perf_counter() - began_s
        time.sleep(_SETTLE_S)
        grown = _used_memory(redis) - before
        pipeline = redis.pipeline(transaction=False)
        for bucket in range(0, buckets, -(-buckets // _ASKED_BUCKETS)):
            pipeline.object("encoding", f"{prefix}{bucket}")
        encodings = pipeline.execute()
    share = encodings.count(b"listpack") / len(encodings)
    return Footprint(server, output, entities, grown / entities, share, load_s)


def _used_memory(redis: "Redis[bytes]") -> int:
    return int(redis.info("memory")["used_memory"])
