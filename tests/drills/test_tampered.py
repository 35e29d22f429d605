"""A generation that is changed after it was verified is not activated; doing what the refusal says completes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from batch_scoring.publishing.generation import need_verified
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.keys import bucket_count, bucket_key, bucket_of, field_of, generation_manifest_key
from tests.drills.world import ENTITIES, MODEL, World
from tests.support.redis_server import RedisServer
from tests.support.scored import publish_here, scored

pytestmark = pytest.mark.fault

FIELD = ENTITIES[7].encode()


def bucket(run: Run) -> str:
    return bucket_key(run.model, run.version, run.generation, bucket_of(FIELD, bucket_count(len(ENTITIES))))


def field_changed(redis: "Redis[bytes]", run: Run) -> None:
    """To another entity's value, which is sound in itself."""
    redis.hset(bucket(run), field_of(FIELD), redis.hvals(bucket(run))[-1])


def field_deleted(redis: "Redis[bytes]", run: Run) -> None:
    assert redis.hdel(bucket(run), field_of(FIELD)) == 1


def field_added(redis: "Redis[bytes]", run: Run) -> None:
    redis.hset(bucket(run), "nobody", b"value")


def bucket_deleted(redis: "Redis[bytes]", run: Run) -> None:
    assert redis.delete(bucket(run)) == 1


def bucket_of_another_type(redis: "Redis[bytes]", run: Run) -> None:
    redis.delete(bucket(run))
    redis.set(bucket(run), "no hash")


def manifest_deleted(redis: "Redis[bytes]", run: Run) -> None:
    assert redis.delete(generation_manifest_key(MODEL, run.version, run.generation)) == 1


HARMS = [field_changed, field_deleted, field_added, bucket_deleted, bucket_of_another_type, manifest_deleted]


@pytest.mark.parametrize("harm", HARMS)
def test_of_a_small_generation_every_bucket_is_looked_at_before_the_switch(
    world: World, harm: Callable[["Redis[bytes]", Run], None]
) -> None:
    before = world.live()
    run, number = world.night()
    world.steps(run, "publish", "verify", "gate")
    harm(world.redis, run)
    with world.apart("activate", run) as job:
        assert job.wait() == 2, job.said
    assert "Traceback" not in job.said
    world.still_old(before)
    world.steps(run, "publish")
    if world.step("verify", run) == 2:  # publishing did not know of it; now it does
        world.steps(run, "publish", "verify")
    world.still_old(before)
    world.complete(run, number, since="gate")


def test_of_a_large_generation_a_random_sample_of_buckets_is_looked_at(tmp_path: Path) -> None:
    """Of 313 buckets one is changed: each look finds it with four chances of five."""
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        settings = BatchSettings.model_validate({"redis_url": server.url, "data_url": str(tmp_path)})
        run = scored(tmp_path, [f"F{i}" for i in range(30_000)])
        publish_here(run, settings)
        verify(run, settings)
        need_verified(redis, run)
        redis.hset(bucket_key(run.model, run.version, run.generation, 5), "F1", b"changed")
        found = [refusal for _ in range(12) if (refusal := looked_at(redis, run))]
        assert found
        assert all("such as 5, are not what was verified" in refusal for refusal in found)


def looked_at(redis: "Redis[bytes]", run: Run) -> str:
    """What the look before the switch refuses."""
    try:
        need_verified(redis, run)
    except Refused as refusal:
        return str(refusal)
    return ""
