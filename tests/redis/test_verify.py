"""Verifying a generation in a real Valkey: what is not as it was scored is found and named, also after verify."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from redis import Redis

from batch_scoring.publishing.compare import compare
from batch_scoring.publishing.generation import need_verified
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.keys import bucket_key, bucket_of, generation_manifest_key
from tests.support.scored import GENERATION, MODEL, VERSION, publish_here, scored, stored

ENTITIES = [f"F{i}" for i in range(3000)]
MANIFEST = generation_manifest_key(MODEL, VERSION, GENERATION)
Harm = Callable[["Redis[bytes]", str], object]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scored")


@pytest.fixture
def settings(redis_url: str, folder: Path) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": redis_url, "data_url": str(folder)})


@pytest.fixture
def redis(redis_url: str) -> "Iterator[Redis[bytes]]":
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def run(folder: Path, settings: BatchSettings) -> Run:
    run = scored(folder, ENTITIES)
    publish_here(run, settings)
    return run


def key_of(run: Run, entity: str) -> str:
    bucket = bucket_of(entity.encode(), run.count("score", "buckets"))
    return bucket_key(MODEL, VERSION, GENERATION, bucket)


def other_value(redis: "Redis[bytes]", key: str) -> None:
    value = redis.hget(key, "F7") or b""
    redis.hset(key, "F7", value[:-1] + bytes([value[-1] ^ 1]))


def added(redis: "Redis[bytes]", key: str) -> None:
    redis.hset(key, "nobody", "x")


HARMS: dict[str, tuple[Harm, str]] = {
    "another value": (other_value, "0 fields missing, 0 too many, 1 with another value, such as 'F7'"),
    "a field less": (
        lambda redis, key: redis.hdel(key, "F7"),
        "1 fields missing, 0 too many, 0 with another value",
    ),
    "a field more": (added, "0 fields missing, 1 too many, 0 with another value, such as 'nobody'"),
    "a bucket less": (lambda redis, key: redis.delete(key), "0 too many, 0 with another value"),
    "no hash": (lambda redis, key: redis.set(key, "x"), "0 too many, 0 with another value"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_not_what_was_scored_is_named_and_published_anew(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]", harm: str
) -> None:
    do, words = HARMS[harm]
    do(redis, key_of(run, "F7"))
    with pytest.raises(Refused, match=f"^1 of 32 buckets of {GENERATION} are not what was scored.*{words}"):
        verify(run, settings)
    assert run.report("publish") is None
    assert orjson.loads(redis.get(MANIFEST) or b"")["state"] == "refused"
    assert publish_here(run, settings) == [0, 1, 2, 3]
    assert verify(run, settings)["checksum"] == run.need_report("score")["checksum"]


def test_buckets_that_were_never_scored_are_found(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    redis.hset(bucket_key(MODEL, VERSION, GENERATION, 77), "F1", "x")
    with pytest.raises(Refused, match=r"1 buckets of .* were never scored, such as \[77\]"):
        verify(run, settings)


@pytest.mark.parametrize("threads", [1, 3])
def test_every_difference_is_counted_whoever_found_it(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]", threads: int
) -> None:
    settings = settings.model_copy(update={"verify_threads": threads, "write_batch_entities": 200})
    for entity in ENTITIES[::200]:
        redis.hset(key_of(run, entity), entity, "tampered")
    changed = {key_of(run, entity) for entity in ENTITIES[::200]}
    with pytest.raises(Refused, match=f"^{len(changed)} of 32 buckets"):
        verify(run, settings)


def test_generations_that_redis_keeps_as_hashtables_are_compared_too(
    folder: Path, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    wide = scored(folder, ENTITIES, width=40)
    publish_here(wide, settings)
    assert redis.object("ENCODING", key_of(wide, "F7")) == b"hashtable"
    assert verify(wide, settings)["rows"] == len(ENTITIES)
    other_value(redis, key_of(wide, "F7"))
    with pytest.raises(Refused, match="1 with another value, such as 'F7'"):
        verify(wide, settings)


def test_scores_that_are_changed_between_publish_and_verify_are_scored_again(
    run: Run, settings: BatchSettings, folder: Path
) -> None:
    path = Path(run.place("scores")) / "part-00003.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Refused, match=r"part-00003.parquet .* run score again"):
        verify(run, settings)
    assert run.report("score") is None
    assert run.report("publish") is None


@pytest.mark.parametrize(("name", "value"), [("checksum", "0123456789abcdef"), ("rows", 2999)])
def test_a_report_that_is_not_of_these_files_has_them_scored_again(
    run: Run, settings: BatchSettings, name: str, value: object
) -> None:
    run.finish("score", dict(run.need_report("score")) | {name: value})
    with pytest.raises(Refused, match=r"3,000 rows with checksum .* run score again"):
        verify(run, settings)
    assert run.report("score") is None


def test_a_bucket_without_rows_must_be_empty(folder: Path, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    """An earlier attempt may have filled it."""
    empty = [2, 3]
    run = scored(folder, [name for name in ENTITIES if bucket_of(name.encode(), 4) not in empty][:300])
    assert run.count("score", "buckets") == 4
    publish_here(run, settings)
    verify(run, settings)
    redis.hset(bucket_key(MODEL, VERSION, GENERATION, empty[1]), "nobody", "x")
    with pytest.raises(Refused, match="bucket 3: 0 fields missing, 1 too many"):
        verify(run, settings)


def test_values_that_a_client_would_take_for_another_generations_are_refused(
    run: Run, settings: BatchSettings
) -> None:
    """Files and Redis agree, and yet no look-up would take what they hold."""
    other = run.model_copy(update={"ordinal": run.ordinal + 1})
    with pytest.raises(Refused, match="reads back as a value of generation ordinal"):
        verify(other, settings)


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_changed_after_verify_is_found_before_it_goes_live(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]", harm: str
) -> None:
    run.finish("verify", verify(run, settings))
    need_verified(redis, run)
    HARMS[harm][0](redis, key_of(run, "F7"))
    with pytest.raises(Refused, match="verified"):
        need_verified(redis, run)


def test_the_last_look_takes_a_moment(folder: Path, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    run = scored(folder, [f"F{i}" for i in range(100_000)])
    publish_here(run, settings)
    verify(run, settings)
    took_s = []
    for _ in range(5):
        began_s = _busy_s(redis)
        need_verified(redis, run)
        took_s.append(_busy_s(redis) - began_s)
    assert min(took_s) < 0.1


def _busy_s(redis: "Redis[bytes]") -> float:
    """Seconds that this process and the server have worked: others on the machine do not count."""
    server = redis.info("cpu")
    return float(server["used_cpu_user"] + server["used_cpu_sys"]) + time.process_time()


def test_a_limit_is_kept_by_all_threads_together(run: Run, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    slow = settings.model_copy(update={"max_entities_per_s": 3000, "verify_threads": 2})
    began_s = time.perf_counter()
    publish_here(scored(Path(settings.data_url), ENTITIES), slow)
    published_s = time.perf_counter()
    assert 0.8 < published_s - began_s < 3
    verify(run, slow)
    assert time.perf_counter() - published_s > 0.1
    assert len(stored(redis, run)) == len(ENTITIES)


def test_the_sample_has_rows_of_all_parts_as_clients_read_them(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    wanted = np.arange(0, len(ENTITIES), 3)
    sample = compare(run, settings, 32, wanted).sample
    assert len({entity for entity, _ in sample}) == len(wanted) == 1000
    assert all(
        redis.hget(key_of(run, entity.decode()), entity.decode()) == value for entity, value in sample[::50]
    )
    per_part = [bucket_of(entity, 32) // 8 for entity, _ in sample]
    assert min(per_part.count(part) for part in range(4)) > 150
    assert verify(run, settings)["read_back"] == 1000
