"""How generations of every width lie in a real Valkey and a real Redis, and what memory the publisher expects."""

from collections.abc import Iterator

import numpy as np
import pytest
from pydantic import SecretStr
from redis import Redis

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.publishing.sizes import fields_bytes
from batch_scoring.settings import BatchSettings
from schemas.codec import pack_rows, unpack
from schemas.keys import bucket_count, bucket_of, bucket_prefix, field_of
from schemas.manifest import Output, OutputSpecification, TopKOutput, VectorOutput
from schemas.outputs import calibrate
from tests.support.redis_server import RedisServer, debian_redis

PREFIX = bucket_prefix("m", "1", "20261128T0200Z-1")
PROBABILITIES = OutputSpecification(outputs=tuple(Output(name=name) for name in ("p", "a", "b")))
SPECIFICATIONS = {
    "scalar": OutputSpecification(outputs=(Output(name="p"),)),
    "label and 2 probabilities": PROBABILITIES,
    "top-5": OutputSpecification(outputs=(TopKOutput(name="t", k=5, size=40),)),
    "vector of 12": OutputSpecification(outputs=(VectorOutput(name="v", size=12),)),
    "top-6": OutputSpecification(outputs=(TopKOutput(name="t", k=6, size=40),)),
    "vector of 13": OutputSpecification(outputs=(VectorOutput(name="v", size=13),)),
    "top-10": OutputSpecification(outputs=(TopKOutput(name="t", k=10, size=40),)),
    "vector of 384": OutputSpecification(outputs=(VectorOutput(name="v", size=384),)),
}
NARROW = [name for name, one in SPECIFICATIONS.items() if one.stored_width <= 12]
WIDE = [name for name in SPECIFICATIONS if name not in NARROW]
# 64 bytes, one more, many more, and what begins as an escape does, of one to many bytes.
IDS = (
    [f"{i:064d}" for i in range(2000)]
    + [f"{i:065d}" for i in range(2000)]
    + [f"{'é' * 100}{i}" for i in range(2000)]
    + [f"\x00{i}" for i in range(1000)]
    + [f"\x00{i:063d}" for i in range(1000)]
    + [f"F{i}" for i in range(2000)]
)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def redis(request: pytest.FixtureRequest) -> "Iterator[Redis[bytes]]":
    program = debian_redis() if request.param == "redis" else None
    with RedisServer(program=program) as server, Redis.from_url(server.url) as client:
        yield client


def write(redis: "Redis[bytes]", specification: OutputSpecification, ids: list[str]) -> list[tuple[bytes, bytes]]:
    """A generation in the emptied server; (entity, packed) of each."""
    redis.execute_command("FLUSHALL", "SYNC")
    entities = [name.encode() for name in ids]
    raw = np.random.default_rng(0).random((len(ids), specification.model_width)).astype(np.float32)
    packed = pack_rows(entities, 7, 1_790_000_000_123, calibrate(specification, raw))
    buckets = bucket_count(len(ids))
    rows = sorted(
        (bucket_of(one, buckets), field_of(one), value) for one, value in zip(entities, packed, strict=True)
    )
    port = redis.connection_pool.connection_kwargs["port"]
    settings = BatchSettings.model_validate({"redis_url": SecretStr(f"redis://127.0.0.1:{port}/0")})
    assert write_buckets(rows, PREFIX, settings) == len(ids)
    return list(zip(entities, packed, strict=True))


def encodings(redis: "Redis[bytes]") -> set[bytes]:
    pipe = redis.pipeline(transaction=False)
    for key in redis.keys(f"{PREFIX}*"):
        pipe.object("ENCODING", key)
    return set(pipe.execute())


@pytest.mark.parametrize("name", NARROW)
def test_what_fits_in_64_bytes_lies_in_listpacks_whatever_the_ids(redis: "Redis[bytes]", name: str) -> None:
    written = write(redis, SPECIFICATIONS[name], IDS)
    assert max(len(value) for _, value in written) <= 64
    assert encodings(redis) == {b"listpack"}
    assert sum(redis.hlen(key) for key in redis.keys(f"{PREFIX}*")) == len(IDS) == 10_000


@pytest.mark.parametrize("name", WIDE)
def test_what_does_not_lies_in_hashtables_and_reads_back(redis: "Redis[bytes]", name: str) -> None:
    specification = SPECIFICATIONS[name]
    written = write(redis, specification, IDS[::10])
    assert encodings(redis) == {b"hashtable"}
    buckets = bucket_count(len(written))
    for entity, packed in written[::37]:
        found = redis.hget(f"{PREFIX}{bucket_of(entity, buckets)}", field_of(entity))
        assert found == packed
        assert len(unpack(found, entity, 7, specification.stored_width).outputs) == specification.stored_width


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_the_memory_gate_expects_no_less_than_is_taken_and_little_more(redis: "Redis[bytes]", name: str) -> None:
    redis.execute_command("FLUSHALL", "SYNC")
    before = redis.info("memory")["used_memory"]
    written = write(redis, SPECIFICATIONS[name], [f"UA{i:05d}-EWR-IAH" for i in range(5_000)])
    taken = redis.info("memory")["used_memory"] - before
    lengths = (np.array([len(pair[place]) for pair in written]) for place in (0, 1))
    assert 0.97 < fields_bytes(*lengths) / taken < 1.6  # the most is of Valkey, just over 64 bytes


def test_nothing_takes_nothing() -> None:
    assert fields_bytes(np.array([], np.int64), np.array([], np.int64)) == 0
