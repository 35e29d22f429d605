"""What jobs, site and replicas do with Redis, on a real cluster: the same calls as on one server."""

import asyncio
from pathlib import Path

import pytest
from redis import Redis

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.publishing.document import change_document, read_document
from batch_scoring.publishing.generation import need_verified
from batch_scoring.publishing.memory import room
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, held, nodes, now_ms, unlink
from online.inference.node.registry import Registry
from online.monitor.state import LiveStateReader
from schemas.keys import REPLICAS_KEY, bucket_key, history_key, run_key
from schemas.transitions import first_document
from tests.support.offers import offer
from tests.support.redis_cluster import ClusterServers
from tests.support.scored import publish_here, scored

PREFIX = "hs:m:g:1:20261128T0200Z-1:"
BUCKETS = 40


@pytest.fixture
def settings(redis_cluster: ClusterServers) -> BatchSettings:
    for node in redis_cluster.nodes:
        with Redis.from_url(node.url) as redis:
            redis.flushall()
    return BatchSettings.model_validate({"redis_url": redis_cluster.url})


def rows(value: bytes) -> list[tuple[int, bytes, bytes]]:
    return [(bucket, b"f%d" % field, value) for bucket in range(BUCKETS) for field in range(9)]


def test_buckets_are_replaced_on_the_node_that_holds_them(settings: BatchSettings) -> None:
    for value in (b"old", b"new"):
        assert write_buckets(rows(value), PREFIX, settings) == 9 * BUCKETS
    with connect(settings) as redis:
        assert all(node.dbsize() > 0 for node in nodes(redis))
        assert sum(node.dbsize() for node in nodes(redis)) == BUCKETS
        for bucket in range(BUCKETS):
            assert redis.hgetall(f"{PREFIX}{bucket}") == {b"f%d" % field: b"new" for field in range(9)}


def test_a_night_is_published_and_verified_on_all_nodes(settings: BatchSettings, tmp_path: Path) -> None:
    run = scored(tmp_path, [f"F{i}" for i in range(3000)])
    assert publish_here(run, settings) == [0, 1, 2, 3]
    run.finish("verify", verify(run, settings))
    with connect(settings) as redis:
        assert all(node.dbsize() > 5 for node in nodes(redis))
        need_verified(redis, run)
        redis.delete(bucket_key(run.model, run.version, run.generation, 9))
        with pytest.raises(Refused, match="not in Redis as it was verified"):
            need_verified(redis, run)
    with pytest.raises(Refused, match=r"1 of 32 buckets .* bucket 9: "):
        verify(run, settings)


def test_keys_are_counted_and_deleted_wherever_they_lie(settings: BatchSettings) -> None:
    write_buckets(rows(b"v"), PREFIX, settings)
    names = [f"{PREFIX}{bucket}" for bucket in range(BUCKETS + 5)]
    with connect(settings) as redis:
        assert held(redis, names) == BUCKETS
        assert unlink(redis, names) == BUCKETS
        assert held(redis, names) == 0


def test_the_routes_document_is_changed_by_compare_and_set(settings: BatchSettings) -> None:
    with connect(settings) as redis:
        token = redis.incr(run_key("m"))
        change_document(redis, "m", "first", lambda _: first_document(offer(token), now_ms(redis)), token)
        found = read_document(redis, "m")
        assert found is not None
        assert found.revision == 1
        assert abs(found.epoch - now_ms(redis)) < 60_000
        assert redis.llen(history_key("m")) == 1
        redis.incr(run_key("m"))
        with pytest.raises(Refused, match="a newer run has begun"):
            change_document(
                redis,
                "m",
                "old",
                lambda d: d and d.model_copy(update={"revision": 2}),
                token,  # type: ignore[arg-type, return-value]
            )


def test_room_is_that_of_the_fullest_node(settings: BatchSettings) -> None:
    with connect(settings) as redis:
        assert room(redis, settings).most == 0
        limits = (100 << 20, 200 << 20, 300 << 20)
        for node, limit in zip(nodes(redis), limits, strict=True):
            node.config_set("maxmemory", limit)
        try:
            found = room(redis, settings)
            assert found.most == sum(limits)
            assert 0 < found.left < 3 * 90 << 20
            nodes(redis)[1].config_set("maxmemory-policy", "allkeys-lru")
            with pytest.raises(Refused, match="allkeys-lru"):
                room(redis, settings)
        finally:
            for node in nodes(redis):
                node.config_set("maxmemory", 0)
                node.config_set("maxmemory-policy", "noeviction")


async def test_a_replica_announces_itself_and_the_site_reads_it(settings: BatchSettings) -> None:
    url = settings.redis_url.get_secret_value()
    version = {"model": "m", "version": "1", "tau0_ms": 6.0, "alpha_ms": 1.2, "max_batch_rows": 64}
    registry = Registry(url, "n1", lambda: {"versions": [version]})
    task = asyncio.create_task(registry.run())
    with connect(settings) as redis, LiveStateReader(url, 1.0) as reader:
        for _ in range(200):
            state = await asyncio.to_thread(reader.read, "m")
            if state.replicas:
                break
            await asyncio.sleep(0.02)
        assert [replica.node for replica in state.replicas] == ["n1"]
        assert state.now_ms is not None
        assert abs(state.now_ms - now_ms(redis)) < 5000
        task.cancel()
        await asyncio.wait([task])
        assert not redis.exists(REPLICAS_KEY)
