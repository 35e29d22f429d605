"""The simulated eviction beside a real server's, and what must hold of it whatever is asked."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from batch_scoring.hotset.policies import Lru
from batch_scoring.hotset.redis_eviction import LFU, LRU, Eviction, RedisCache
from tests.support.redis_server import RedisServer

ASKED = st.lists(st.tuples(st.integers(0, 9), st.floats(0, 400)), max_size=80)
EVICTION = st.sampled_from([Eviction(LFU, 1), Eviction(LFU, 60), Eviction(LRU)])


@given(ASKED, st.integers(0, 6), EVICTION, st.one_of(st.none(), st.floats(1, 300)))
def test_it_holds_its_slots_at_most_and_nothing_too_old(
    asked: list[tuple[int, float]], slots: int, eviction: Eviction, ttl_s: float | None
) -> None:
    cache, now_s, written_s = RedisCache(slots, eviction, ttl_s), 0.0, dict[int, float]()
    for key, later_s in asked:
        now_s += later_s
        if cache.ask(key, now_s):
            assert ttl_s is None or now_s - written_s[key] < ttl_s
        else:
            written_s[key] = now_s
        assert len(cache) <= slots


@given(ASKED, EVICTION)
def test_with_room_for_all_only_what_is_new_misses(asked: list[tuple[int, float]], eviction: Eviction) -> None:
    cache, now_s, seen = RedisCache(10, eviction), 0.0, set[int]()
    for key, later_s in asked:
        now_s += later_s
        assert cache.ask(key, now_s) == (key in seen)
        seen.add(key)


def test_fewer_slots_evict_at_once_and_an_often_asked_key_stays() -> None:
    cache = RedisCache(100, Eviction(LFU, 60))
    for now in range(300):
        cache.ask(0, now)
    for key in range(1, 100):
        cache.ask(key, 300)
    cache.resize(4, 301)
    assert len(cache) == 4
    assert cache.ask(0, 302)


def test_lru_by_samples_is_close_to_lru() -> None:
    keys = np.random.default_rng(3).zipf(1.2, 30_000) % 3000
    sampled, exact = RedisCache(200, Eviction(LRU)), Lru(200)
    rate = np.mean([sampled.ask(key, now) for now, key in enumerate(keys.tolist())])
    assert rate == pytest.approx(np.mean([exact.ask(key) for key in keys.tolist()]), abs=0.02)


def test_written_back_after_two_misses_what_is_asked_for_once_takes_nobodys_place() -> None:
    draw = np.random.default_rng(5)
    often, once = draw.integers(0, 60, 20_000), np.arange(20_000) + 100
    keys = np.where(draw.random(20_000) < 0.5, often, once).tolist()

    def hits(written_after: int) -> int:
        cache = RedisCache(40, Eviction(LRU, written_after=written_after))
        return sum(cache.ask(key, now) for now, key in enumerate(keys))

    assert hits(2) > 1.3 * hits(1)


@pytest.mark.long
@pytest.mark.parametrize("eviction", [Eviction(LFU), Eviction(LRU)])
def test_a_real_server_hits_as_often(eviction: Eviction) -> None:
    keys = (np.random.default_rng(5).zipf(1.1, 12_000) % 5000).tolist()
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        redis.config_set("maxmemory-policy", eviction.policy)
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"]) + 300_000)
        hits, times_s = [], []
        for key in keys:
            times_s.append(time.time())
            hits.append(redis.get(f"k{key}") is not None)
            if not hits[-1]:
                redis.set(f"k{key}", b"v" * 200, ex=3600)
        slots = redis.dbsize()
    assert 200 < slots < 2000
    cache = RedisCache(slots, eviction)
    simulated = [cache.ask(key, now_s) for key, now_s in zip(keys, times_s, strict=True)]
    assert np.mean(simulated) == pytest.approx(np.mean(hits), abs=0.02)
