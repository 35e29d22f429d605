"""Without Redis, with a slow one, or with wrong values in it: answers stay right, and say what happened."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from redis import Redis

from schemas.keys import bucket_key, bucket_of
from tests.api.conftest import awkward_model
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import GENERATION, Small
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import Served, WireNode, served


@dataclass
class Faulty:
    """An API whose Redis is its own, to be stopped."""

    api: ApiProcess
    server: RedisServer
    small: Small
    served: Served
    node: WireNode

    def ask(self, entity: str) -> dict[str, object]:
        return dict(self.api.client.get(f"/v1/models/delay/predictions/{quote(entity, safe='')}").json())

    def is_right(self, entity: str) -> bool:
        answer = self.ask(entity)
        late, minutes = self.small.outputs([self.small.records[entity]])[0]
        return answer["outputs"] == {"late": round(float(late), 6), "minutes": round(float(minutes), 6)}


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Faulty]:
    small = awkward_model(tmp_path, "delay")
    worker = served(small.raw, small.forward)
    with (
        RedisServer() as server,
        WireNode(worker) as node,
        ApiProcess(tmp_path, redis_url=server.url, nodes=[node.address], l1_bytes="0") as api,
    ):
        with Redis.from_url(server.url) as redis:
            small.publish(redis)
        api.wait_ready()
        wait_for(lambda: api.client.get("/readyz").json()["models"]["delay"]["features_without_redis"])
        yield Faulty(api, server, small, worker, node)


def test_redis_stopped_and_back(faulty: Faulty) -> None:
    """Live from the snapshot while it is away; hits again, by itself, once it is back."""
    assert faulty.ask("hot1")["source"] == "precomputed"
    faulty.server.stop()
    for entity in ("hot1", "cold1", "a/b", "\u00e9"):
        began = time.monotonic()
        answer = faulty.ask(entity)
        assert answer["source"] == "live"
        assert answer["miss_reason"] in ("connection_lost", "breaker_open")
        assert time.monotonic() - began < 1
        assert faulty.is_right(entity)
    assert faulty.ask("nobody")["code"] == "unknown_entity"
    faulty.server.start()
    with Redis.from_url(faulty.server.url) as redis:
        faulty.small.publish(redis)
    # What is asked while the links come back may be written back, and is then newer than its generation.
    wait_for(lambda: faulty.ask("hot1")["source"] != "live", what="a hit")
    assert faulty.ask("hot99")["source"] == "precomputed"


def test_redis_that_hangs(faulty: Faulty) -> None:
    """The first look-up waits its budget, the next ones not at all; thawed, no reply reaches the wrong entity."""
    faulty.server.freeze()
    first = faulty.ask("hot1")
    assert (first["source"], first["miss_reason"]) == ("live", "redis_timeout")
    later = [faulty.ask(f"hot{place}") for place in range(20)]
    assert {answer["miss_reason"] for answer in later} <= {"breaker_open", "redis_timeout"}
    assert [answer["miss_reason"] for answer in later].count("breaker_open") >= 15
    faulty.server.thaw()
    # What was asked meanwhile was written back, and is newer than its generation.
    wait_for(lambda: faulty.ask("hot99")["source"] != "live", what="a hit")
    assert faulty.ask("hot100")["source"] == "precomputed"
    assert all(faulty.is_right(f"hot{place}") for place in range(50))


def test_start_without_redis(faulty: Faulty) -> None:
    """From the routes document, manifest and snapshot that the last run left on disk."""
    faulty.api.stop()
    faulty.server.stop()
    faulty.api.start()
    wait_for(lambda: faulty.ask("hot2").get("source") == "live", what="a live answer")
    assert faulty.is_right("hot2")
    assert faulty.api.client.get("/readyz").json()["redis"] != "connected"


def test_everything_down_answers_within_the_deadline(faulty: Faulty) -> None:
    faulty.server.stop()
    faulty.node.stop()
    wait_for(lambda: "code" in faulty.ask("hot1"), what="the loss of the live tier")
    began = time.monotonic()
    answer = faulty.api.client.get("/v1/models/delay/predictions/hot1")
    assert time.monotonic() - began < 2
    assert (answer.status_code, answer.json()["code"]) == (503, "live_unavailable")
    assert answer.headers["Retry-After"] == "1"


def test_wrong_values_are_misses_of_their_entity_alone(faulty: Faulty) -> None:
    """Cut short, somebody else's, a key of another type: counted, answered live, and right."""
    faulty.served.delay_s = 0.0
    with Redis.from_url(faulty.server.url) as redis:
        buckets = -(-len(faulty.small.hot) // 96)

        def place(entity: str) -> tuple[str, str]:
            return bucket_key("delay", "1", GENERATION, bucket_of(entity.encode(), buckets)), entity

        neighbour = redis.hget(*place("hot9"))
        assert neighbour is not None
        redis.hset(*place("hot1"), b"\x01junk")
        redis.hset(*place("hot2"), neighbour)
        redis.set("hs:delay:l:1:cold3", b"")
        redis.hset("hs:delay:l:1:cold4", "a", "b")
        expected = {"hot1": "corrupt", "hot2": "foreign", "cold3": "corrupt", "cold4": "corrupt", "hot9": None}
        for entity, reason in expected.items():
            answer = faulty.ask(entity)
            assert answer["miss_reason"] == reason, entity
            assert answer["source"] == ("live" if reason else "precomputed")
            assert faulty.is_right(entity)


def test_redis_that_refuses_writes(faulty: Faulty) -> None:
    """Hits go on; write-backs are dropped and counted."""
    with Redis.from_url(faulty.server.url) as redis:
        redis.config_set("maxmemory", "1")
        try:
            assert faulty.ask("cold1")["source"] == "live"
            assert faulty.ask("hot1")["source"] == "precomputed"
            dropped = 'hotset_events_total{event="dropped_refused",part="write_back"} 1.0'
            wait_for(lambda: dropped in faulty.api.client.get("/metrics").text, what="the count")
        finally:
            redis.config_set("maxmemory", "0")


def test_an_emptied_redis(faulty: Faulty) -> None:
    """The routes stay what they were, and so do the entities that are known: by the snapshot of the table."""
    with Redis.from_url(faulty.server.url) as redis:
        redis.flushall()
    assert faulty.ask("hot1")["source"] == "live"
    assert faulty.is_right("hot1")
    assert faulty.ask("nobody")["code"] == "unknown_entity"
    with Redis.from_url(faulty.server.url) as redis:
        faulty.small.publish(redis, epoch=2)
    wait_for(lambda: faulty.ask("hot2").get("source") == "precomputed", what="a hit")
