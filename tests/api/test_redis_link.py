"""The link to Redis against a real server: each caller gets its own replies, or none, within its budget."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from redis import Redis

from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get, hget, parse_address
from tests.support.redis_server import RedisServer
from tests.support.until import until, until_open

BUDGET_S = 0.05


@pytest.fixture
async def link(redis_url: str) -> AsyncIterator[RedisLink]:
    with Redis.from_url(redis_url) as redis:
        redis.mset({f"k{place}": f"v{place}" for place in range(1000)})
        redis.hset("h", "f", "w")
    async with RedisLink(parse_address(redis_url), BUDGET_S, 1.0) as link:
        await until_open(link)
        yield link


async def test_asks_of_one_tick_share_a_write_and_keep_their_replies(link: RedisLink) -> None:
    asks = [link.ask([get(b"k%d" % place), hget(b"h", b"f")]) for place in range(500)]
    for place, replies in enumerate(await asyncio.gather(*asks)):
        assert replies == [b"v%d" % place, b"w"]


async def test_what_is_asked_while_replies_are_owed_shares_the_next_write(link: RedisLink, redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        async with RedisLink(parse_address(redis_url), 5.0, 1.0) as patient:
            await until_open(patient)
            before = redis.info("stats")["total_reads_processed"]
            redis.execute_command("CLIENT", "PAUSE", 50, "ALL")  # type: ignore[no-untyped-call]  # redis-py's
            asks = []
            for place in range(40):
                asks.append(patient.ask([get(b"k%d" % place)]))
                await asyncio.sleep(0)
            assert await asyncio.gather(*asks) == [[b"v%d" % place] for place in range(40)]
            # Two of the link's writes, the pause, and this question.
            assert redis.info("stats")["total_reads_processed"] - before <= 4


async def test_absent_values_and_errors_are_replies(link: RedisLink) -> None:
    absent, wrong = await link.ask([get(b"none"), get(b"h")])
    assert absent is None
    assert str(wrong).startswith("WRONGTYPE")


async def test_callers_that_give_up_leave_no_reply_to_others(link: RedisLink) -> None:
    """2,000 asks, a third of them cancelled at random moments; every other one gets its own value."""
    rng = random.Random(7)
    wrong = 0

    async def one(place: int) -> None:
        nonlocal wrong
        (value,) = await link.ask([get(b"k%d" % place)])
        wrong += value != b"v%d" % place

    for _ in range(20):
        tasks = [asyncio.create_task(one(rng.randrange(1000))) for _ in range(100)]
        for task in rng.sample(tasks, 33):
            await asyncio.sleep(0)
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(found is None or isinstance(found, asyncio.CancelledError) for found in results)
    assert wrong == 0


async def test_late_replies_are_dropped_and_the_breaker_closes_by_itself(link: RedisLink, redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.client_pause(400)
        with pytest.raises(RedisSlow):
            await link.ask([get(b"k1")])
        began = asyncio.get_running_loop().time()
        with pytest.raises(RedisDown):
            link.ask([get(b"k2")])
        assert asyncio.get_running_loop().time() - began < BUDGET_S
    await until_open(link)
    assert await link.ask([get(b"k3")]) == [b"v3"]
    assert link.counts.connects == 1
    assert link.counts.slow == 1


async def test_a_lost_connection_fails_its_asks_at_once_and_comes_back(link: RedisLink, redis_url: str) -> None:
    with Redis.from_url(redis_url) as redis:
        redis.client_pause(300)
        asked = link.ask([get(b"k1")])
        await asyncio.sleep(0)
        redis.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(RedisDown):
        await asked
    await until_open(link)
    assert await link.ask([get(b"k1")]) == [b"v1"]
    assert link.counts.connects == 2


async def test_a_server_that_stays_silent_is_dropped() -> None:
    with RedisServer() as server:
        async with RedisLink(parse_address(server.url), BUDGET_S, 0.3) as link:
            await until_open(link)
            server.freeze()
            with pytest.raises(RedisSlow):
                await link.ask([get(b"k")])
            await until(lambda: link.counts.lost)
            server.thaw()
            await until_open(link)
            assert await link.ask([get(b"k")]) == [None]


async def test_password_database_and_unix_socket(tmp_path: object, caplog: pytest.LogCaptureFixture) -> None:
    path = f"{tmp_path}/s.sock"
    with RedisServer(["--unixsocket", path]) as server, Redis.from_url(server.url) as redis:
        redis.config_set("requirepass", "hunter2")
        with Redis.from_url(f"redis://:hunter2@127.0.0.1:{server.port}/3") as third:
            third.set("k", "three")
        for url in (f"redis://:hunter2@127.0.0.1:{server.port}/3", f"unix://:hunter2@{path}?db=3"):
            address = parse_address(url)
            assert "hunter2" not in repr(address)
            async with RedisLink(address, BUDGET_S, 1.0) as link:
                await until_open(link)
                assert await link.ask([get(b"k")]) == [b"three"]
        async with RedisLink(parse_address(server.url), BUDGET_S, 1.0) as refused:
            await until(lambda: "cannot be reached" in caplog.text)
            assert not refused.is_open
