"""Invalidation: at once where it was asked for, everywhere within a second; past evictions, restarts, losses."""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.api.conftest import World
from tests.api.fresh_world import BASE, MINUTE_MS, TOKEN, Fresh, publish
from tests.support.api_process import ApiProcess, wait_for
from tests.support.nights import load, redis_ms, route
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import WireNode


def test_at_once_in_the_worker_that_took_it_and_l1_too(fresh: Fresh) -> None:
    for _ in range(2):
        assert fresh.answer("plain", "e1") == ("precomputed", None, BASE)
    told = fresh.invalidate("plain", "e1", "e2", "e1")
    assert (told.status_code, told.json()["entities"]) == (200, 2)
    first = fresh.get("plain", "e1").json()
    assert (first["source"], first["miss_reason"]) == ("live", "invalidated")
    assert first["outputs"]["minutes"] == fresh.minutes("e1")
    assert first["computed_at"] >= told.json()["at"]
    wait_for(lambda: fresh.answer("plain", "e1") == ("cached", "invalidated", fresh.minutes("e1")), what="a hit")
    assert fresh.answer("plain", "e3") == ("precomputed", None, BASE)
    assert fresh.answer("patched", "e30") == fresh.answer("plain", "e30") == ("precomputed", None, BASE)
    fresh.invalidate("plain", "e30")
    assert fresh.answer("patched", "e30") == ("precomputed", None, BASE), "another model's"


def test_a_batch_too_whether_l1_has_it_or_not(fresh: Fresh) -> None:
    items = {"items": ["e31", "e32", "e33"]}

    def ask() -> list[tuple[object, object]]:
        answer = fresh.api.client.post("/v1/models/plain/predictions:batch", json=items)
        return [(one["source"], one["miss_reason"]) for one in answer.json()["results"]]

    assert fresh.answer("plain", "e31")[0] == "precomputed"  # and so in L1
    fresh.invalidate("plain", "e31", "e32")
    assert ask() == [("live", "invalidated")] * 2 + [("precomputed", None)]


def test_in_every_worker_within_a_second(fresh: Fresh) -> None:
    """A new connection each time goes to either worker."""
    path = f"{fresh.api.base}/v1/models/plain/predictions/e4"
    assert {httpx.get(path).json()["source"] for _ in range(30)} == {"precomputed"}
    assert fresh.invalidate("plain", "e4").status_code == 200
    time.sleep(1.0)  # what is promised
    sources = [httpx.get(path).json()["source"] for _ in range(30)]
    assert "precomputed" not in sources


def test_it_survives_what_was_written_back(fresh: Fresh) -> None:
    """`l:` may be evicted at any time: the older precomputed answer does not come back."""
    fresh.invalidate("plain", "e5")
    assert fresh.answer("plain", "e5")[0] == "live"
    wait_for(lambda: fresh.redis.delete("hs:plain:l:1:e5"), what="what was written back")
    assert fresh.answer("plain", "e5")[:2] == ("live", "invalidated")


def test_a_newer_generation_counts_again(fresh: Fresh) -> None:
    small = fresh.smalls["aged"]
    fresh.invalidate("aged", "e7")
    assert fresh.answer("aged", "e7")[:2] == ("live", "invalidated")
    # Newer than whatever is computed live until the switch is seen.
    newer = load(fresh.redis, small, "20261130T0200Z-1", 3, redis_ms(fresh.redis) + 60_000, {"e7": 77.0})
    route(fresh.redis, small, [newer], is_first=False)
    wait_for(lambda: fresh.answer("aged", "e7") == ("precomputed", None, 77.0), what="the newer answer")


def test_brought_features_are_nobodys_entity(fresh: Fresh) -> None:
    body = {"entity": "e8", "features": {"distance": 8, "airline": "UA"}}

    def ask() -> object:
        return fresh.api.client.post("/v1/models/plain/predict", json=body).json()["source"]

    assert ask() == "live"
    wait_for(lambda: ask() == "cached", what="what was kept")
    fresh.invalidate("plain", "e8")
    assert ask() == "cached"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "entities"),
        ({"entities": []}, "entities"),
        ({"entities": [7]}, "entities.0"),
        ({"entities": [""]}, "entities.0"),
        ({"entities": ["a", "\ud83d"]}, "entities.1"),
        ({"entities": ["a"] * 1001}, "entities"),
        ({"entities": ["a"], "model": "plain"}, "model"),
        (["a"], "body"),
    ],
)
def test_what_is_no_invalidation(fresh: Fresh, body: object, field: str) -> None:
    answer = fresh.api.client.post(
        "/v1/models/plain/predictions:invalidate",
        content=json.dumps(body),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field


def test_who_may(fresh: Fresh) -> None:
    assert fresh.invalidate("nobody", "a").json()["code"] == "unknown_model"
    for given in (f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}\u00e9"):
        answer = fresh.api.client.post(
            "/v1/models/plain/predictions:invalidate",
            json={"entities": ["e9"]},
            headers={"Authorization": given.encode()},
        )
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorised"), given
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert fresh.answer("plain", "e9") == ("precomputed", None, BASE)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiProcess, RedisServer, Fresh]]:
    """One worker, a Redis of its own to be stopped, and room for three invalidations."""
    tmp_path = tmp_path_factory.mktemp("alone")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        smalls, tier = publish(tmp_path, redis)
        with (
            WireNode(*tier.values()) as node,
            ApiProcess(
                tmp_path,
                redis_url=server.url,
                nodes=[node.address],
                models=list(smalls),
                admin_token_file=str(tmp_path / "token"),
                max_invalidations=3,
            ) as api,
        ):
            api.wait_ready()
            yield api, server, Fresh(api, redis, smalls, tier, redis_ms(redis))


def test_what_was_on_its_way_does_not_count(alone: tuple[ApiProcess, RedisServer, Fresh]) -> None:
    """Work that began before the invalidation answers who asked before, and nobody after it."""
    _, _, fresh = alone
    worker = fresh.tier["patched"]
    begun, worker.delay_s = worker.requests, 0.4
    try:
        with ThreadPoolExecutor(2) as pool:
            early = pool.submit(httpx.get, f"{fresh.api.base}/v1/models/patched/predictions/e50")
            wait_for(lambda: worker.requests == begun + 1, what="the early flight")
            at = fresh.invalidate("patched", "e50").json()["at"]
            late = fresh.get("patched", "e50").json()
            assert early.result().json()["computed_at"] <= at <= late["computed_at"]
            assert worker.requests == begun + 2
    finally:
        worker.delay_s = 0.0
    wait_for(lambda: fresh.answer("patched", "e50")[0] == "cached", what="the late result")
    assert fresh.get("patched", "e50").json()["computed_at"] >= at


def test_restarts_losses_and_bounds(alone: tuple[ApiProcess, RedisServer, Fresh], tmp_path: Path) -> None:
    api, server, fresh = alone
    assert fresh.invalidate("plain", "e1", "e2").status_code == 200
    refused = fresh.invalidate("plain", "e3", "e4")
    assert (refused.status_code, refused.json()["code"]) == (503, "invalidations_full")
    assert fresh.answer("plain", "e3")[0] == "precomputed", "refused as a whole"
    assert fresh.invalidate("plain", "e2", "e3").status_code == 200

    api.stop()
    api.start()
    api.wait_ready()
    assert fresh.answer("plain", "e1")[:2] == ("live", "invalidated")
    assert fresh.answer("plain", "e4")[0] == "precomputed"

    server.stop()
    down = fresh.invalidate("plain", "e4")
    assert (down.status_code, down.json()["code"]) == (503, "store_unavailable")
    assert down.headers["Retry-After"] == "1"
    # A Redis that has lost everything: what the worker knows it keeps; what it could not tell is not invalidated.
    server.start()
    publish(tmp_path, fresh.redis)
    wait_for_hits(fresh)
    assert fresh.answer("plain", "e3")[1] == "invalidated"

    fresh.redis.replicaof("127.0.0.1", "1")
    refused = fresh.invalidate("plain", "e5")
    fresh.redis.replicaof("no", "one")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert fresh.answer("plain", "e5")[0] == "precomputed"


def wait_for_hits(fresh: Fresh) -> None:
    """By another entity each time: what was computed live meanwhile is kept."""
    names = (f"e{place}" for place in itertools.cycle(range(6, 40)))
    wait_for(lambda: fresh.answer("plain", next(names))[0] == "precomputed", what="hits")


def test_needless_ones_make_room(alone: tuple[ApiProcess, RedisServer, Fresh]) -> None:
    """What every retained generation and every written-back result is newer than is pruned with the next."""
    _, _, fresh = alone
    days_ago = fresh.now_ms - 3 * 24 * 60 * MINUTE_MS
    fresh.redis.zadd("hs:aged:x", {f"old{place}": days_ago for place in range(3)})
    assert fresh.invalidate("aged", "e6").status_code == 200
    assert fresh.redis.zrange("hs:aged:x", 0, -1) == [b"e6"]


def test_before_they_can_be_read_nothing_stored_is_answered(tmp_path: Path) -> None:
    """Neither by the short way of a hit, nor by the long one, nor in a batch."""
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        smalls, tier = publish(tmp_path, redis)
        redis.set("hs:plain:x", "no invalidations")
        with (
            WireNode(*tier.values()) as node,
            ApiProcess(tmp_path, redis_url=server.url, nodes=[node.address], models=["plain"]) as api,
        ):
            api.wait_ready()
            fresh = Fresh(api, redis, smalls, tier, redis_ms(redis))
            batch = api.client.post("/v1/models/plain/predictions:batch", json={"items": ["e3"]}).json()["results"]
            short, long = fresh.answer("plain", "e1"), fresh.answer("plain", "e2", "max-age=7200")
            assert [one[:2] for one in (short, long)] == [("live", "breaker_open")] * 2
            assert (batch[0]["source"], batch[0]["miss_reason"]) == ("live", "breaker_open")
            redis.delete("hs:plain:x")
            wait_for_hits(fresh)


def test_switched_off_where_no_token_is_set(world: World) -> None:
    answer = world.client.post("/v1/models/007/predictions:invalidate", json={"entities": ["a"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "admin_disabled")
