"""Publishing score files to a real Valkey: what a job that stopped half-way leaves, and what is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from redis import Redis

from batch_scoring.faults import NotTaken
from batch_scoring.publishing.generation import is_published
from batch_scoring.publishing.memory import next_night_rows
from batch_scoring.publishing.publish_job import publish
from batch_scoring.publishing.sink import Outcome, Sink
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Refused, Role, Run
from batch_scoring.score_files import DamagedScores
from batch_scoring.settings import BatchSettings
from schemas.keys import bucket_count, bucket_key, field_of, generation_manifest_key, live_key
from schemas.transitions import first_document
from tests.support.api_process import wait_for
from tests.support.offers import offer
from tests.support.redis_server import RedisServer
from tests.support.scored import GENERATION, MODEL, VERSION, Here, publish_here, scored, stored

ENTITIES = [f"F{i}" for i in range(2000)] + [f"{'é' * 40}{i}" for i in range(40)] + ["\x00odd"]
MANIFEST = generation_manifest_key(MODEL, VERSION, GENERATION)


class Half(Here):
    """Stops for ever after two parts, as a job that is killed."""

    def __call__(self, run: Run, sink: Sink, places: list[int]) -> list[Outcome]:  # type: ignore[override]
        super().__call__(run, sink, places[:2])
        raise KeyboardInterrupt


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": redis_url, "data_url": str(tmp_path)})


@pytest.fixture
def redis(redis_url: str) -> "Iterator[Redis[bytes]]":
    with Redis.from_url(redis_url) as client:
        yield client
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return scored(tmp_path, ENTITIES)


def killed(run: Run, settings: BatchSettings) -> None:
    with pytest.raises(KeyboardInterrupt):
        publish(run, settings, Half())


def test_every_field_is_there_once_and_the_manifest_says_so(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    assert publish_here(run, settings) == [0, 1, 2, 3]
    assert stored(redis, run).keys() == {field_of(entity.encode()) for entity in ENTITIES}
    assert orjson.loads(redis.get(MANIFEST) or b"")["state"] == "published"
    assert verify(run, settings)["checksum"] == run.need_report("score")["checksum"]


def test_a_job_that_was_killed_goes_on_with_the_parts_left(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    killed(run, settings)
    assert not is_published(redis, run)
    assert publish_here(run, settings) == [2, 3]
    assert verify(run, settings)["rows"] == len(ENTITIES)


def test_checkpoints_end_with_what_redis_held(run: Run, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    killed(run, settings)
    redis.flushall()
    assert publish_here(run, settings) == [0, 1, 2, 3]
    killed(run, settings)  # published before: a new attempt
    redis.delete(MANIFEST)
    assert publish_here(run, settings) == [0, 1, 2, 3]


def test_a_restart_of_redis_ends_checkpoints_though_its_manifest_survived(tmp_path: Path) -> None:
    with RedisServer(["--appendonly", "yes", "--appendfsync", "always"]) as server:
        run = scored(tmp_path, ENTITIES)
        settings = BatchSettings.model_validate({"redis_url": server.url, "data_url": str(tmp_path)})
        killed(run, settings)
        server.stop()
        server.start()
        with Redis.from_url(server.url) as redis:
            assert redis.exists(MANIFEST)
        assert publish_here(run, settings) == [0, 1, 2, 3]
        assert verify(run, settings)["rows"] == len(ENTITIES)


def test_other_scores_of_the_same_generation_begin_anew_and_leave_nothing_of_the_first(
    tmp_path: Path, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    first = scored(tmp_path, ENTITIES)
    killed(first, settings)
    again = scored(tmp_path, ENTITIES[:300], parts=2, value=0.75)
    assert publish_here(again, settings) == [0, 1]
    assert verify(again, settings)["rows"] == 300
    assert len(redis.keys(f"hs:{MODEL}:g:*")) == again.count("score", "filled_buckets") + 1


def test_the_driver_of_an_older_attempt_stops(run: Run, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    class Overtaken(Here):
        def __call__(self, run: Run, sink: Sink, places: list[int]) -> list[Outcome]:  # type: ignore[override]
            manifest = orjson.loads(redis.get(MANIFEST) or b"")
            redis.set(MANIFEST, orjson.dumps({**manifest, "attempt": "another"}))
            return super().__call__(run, sink, places)

    with pytest.raises(NotTaken, match="published by another job"):
        publish(run, settings, Overtaken())
    assert not stored(redis, run)
    assert orjson.loads(redis.get(MANIFEST) or b"")["state"] == "publishing"


def test_a_redis_out_of_memory_half_way_is_told_with_the_numbers_and_gone_on_with(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    class Filling(Here):
        def __call__(self, run: Run, sink: Sink, places: list[int]) -> list[Outcome]:  # type: ignore[override]
            first = super().__call__(run, sink, places[:1])
            redis.config_set("maxmemory", redis.info("memory")["used_memory"])
            return first + super().__call__(run, sink, places[1:])

    with pytest.raises(NotTaken, match=r"3 of 4 score files .* out of memory \([\d,]+ of [\d,]+ bytes used\)"):
        publish(run, settings, Filling())
    assert not is_published(redis, run)
    with pytest.raises(Refused, match=r"publish of .* has not finished"):
        verify(run, settings)
    redis.config_set("maxmemory", 0)
    assert publish_here(run, settings) == [1, 2, 3]
    assert verify(run, settings)["rows"] == len(ENTITIES)


def test_a_replica_is_told_from_a_master(run: Run, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    redis.replicaof("127.0.0.1", "1")
    try:
        with pytest.raises(NotTaken, match="this Redis is a replica"):
            publish(run, settings, Here())
    finally:
        redis.replicaof("NO", "ONE")


def test_a_full_disk_is_told_and_gone_on_after(tmp_path: Path) -> None:
    with RedisServer(["--save", "3600 1000000"]) as server, Redis.from_url(server.url) as redis:
        run = scored(tmp_path, ENTITIES)
        settings = BatchSettings.model_validate({"redis_url": server.url, "data_url": str(tmp_path)})
        killed(run, settings)
        folder = Path(redis.config_get("dir")["dir"])
        shutil.rmtree(folder)  # as good as full: nothing can be saved
        redis.bgsave()
        wait_for(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == "err", what="a save that fails")
        with pytest.raises(NotTaken, match=r"cannot save to its disk .*RDB err"):
            publish(run, settings, Here())
        folder.mkdir()
        redis.config_set("stop-writes-on-bgsave-error", "no")
        assert publish_here(run, settings) == [2, 3]
        assert verify(run, settings)["rows"] == len(ENTITIES)


@pytest.mark.parametrize("harm", ["cut short", "changed", "gone"])
def test_a_damaged_part_is_named_and_has_the_night_scored_again(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]", harm: str
) -> None:
    path = Path(run.place("scores")) / "part-00002.parquet"
    raw = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:-100] if harm == "cut short" else raw[:200] + bytes([raw[200] ^ 1]) + raw[201:])
    with pytest.raises(DamagedScores, match=r"part-00002.parquet .* run score again"):
        publish(run, settings, Here())
    assert run.report("score") is None
    assert orjson.loads(redis.get(MANIFEST) or b"")["state"] == "publishing"
    again = scored(Path(settings.data_url), ENTITIES)
    publish_here(again, settings)
    assert verify(again, settings)["rows"] == len(ENTITIES)


def test_of_nothing_scored_nothing_stays(tmp_path: Path, settings: BatchSettings, redis: "Redis[bytes]") -> None:
    publish_here(scored(tmp_path, ENTITIES), settings)
    empty = scored(tmp_path, [])
    assert publish_here(empty, settings) == []
    assert verify(empty, settings)["rows"] == 0
    assert redis.keys(f"hs:{MODEL}:g:*") == [MANIFEST.encode()]


def test_room_is_wanted_for_two_generations_where_none_is_loaded(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    publish_here(run, settings)
    needed = int(str(run.need_report("publish")["needed_bytes"]))
    redis.flushall()
    redis.config_set("maxmemory-policy", "volatile-lfu")
    redis.config_set("maxmemory", int((redis.info("memory")["used_memory"] + 1.5 * needed) / 0.9))
    with pytest.raises(
        Refused, match=r"needs about [\d,]+ bytes and the next night [\d,]+ more, and Redis has [\d,]+"
    ):
        publish(run, settings, Here())
    assert not redis.keys("hs:*")
    redis.config_set("maxmemory", int((redis.info("memory")["used_memory"] + 2.5 * needed) / 0.9))
    publish_here(run, settings)


def test_written_back_results_make_room_for_a_generation(
    run: Run, settings: BatchSettings, redis: "Redis[bytes]"
) -> None:
    redis.config_set("maxmemory-policy", "volatile-lfu")
    redis.config_set("maxmemory", redis.info("memory")["used_memory"] + (4 << 20))
    pipeline = redis.pipeline(transaction=False)
    for i in range(60_000):
        pipeline.set(live_key(MODEL, VERSION, b"entity%d" % i), b"v" * 21, ex=3600)
    pipeline.execute()
    written_back = redis.dbsize()
    assert written_back < 60_000  # full: it has begun to evict
    publish_here(run, settings)
    assert verify(run, settings)["rows"] == len(ENTITIES)
    assert redis.dbsize() < written_back + bucket_count(len(ENTITIES))
    assert redis.exists(bucket_key(MODEL, VERSION, GENERATION, 0))


def test_room_for_a_next_night_is_wanted_with_a_new_version_only(run: Run) -> None:
    assert next_night_rows(run, 100, None) == 100
    live = offer(1).generation.model_copy(update={"rows": 70})
    document = first_document(offer(1).model_copy(update={"version": "0", "generation": live}), 1000)
    assert next_night_rows(run, 100, document) == 100 + 70
    assert next_night_rows(run.model_copy(update={"version": "0"}), 100, document) == 0
    assert next_night_rows(run.model_copy(update={"role": Role.DELTA}), 100, document) == 0
