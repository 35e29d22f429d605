"""The link, and write-backs by it, to Valkey and Debian's Redis in states that connections and servers get to."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import hiredis
import pytest
from redis import Redis

from online.api.answering.write_back import WriteBack
from online.api.lookup.connection import BreakerOpen, RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get, parse_address
from schemas.admission import Admission
from tests.support.redis_server import RedisServer, debian_redis
from tests.support.tcp_proxy import TcpProxy
from tests.support.until import until

BUDGET_S = 0.05
SLOW_LOADING = ("--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024")


@pytest.fixture(params=["valkey", "redis"])
def program(request: pytest.FixtureRequest) -> str | None:
    return debian_redis() if request.param == "redis" else None


@pytest.fixture
def server(program: str | None) -> Iterator[RedisServer]:
    with RedisServer(program=program) as running:
        with Redis.from_url(running.url) as redis:
            redis.mset({f"k{place}": f"v{place}" for place in range(200)})
        yield running


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(server.port) as running:
        yield running


@pytest.fixture
async def link(proxy: TcpProxy) -> AsyncIterator[RedisLink]:
    async with RedisLink(parse_address(f"redis://127.0.0.1:{proxy.port}"), BUDGET_S, 0.5) as link:
        await until(lambda: link.is_open)
        yield link


async def test_a_half_closed_connection_is_dropped_at_once(link: RedisLink, proxy: TcpProxy) -> None:
    """Its replies would never come: what was asked fails before its budget, and a new connection is made."""
    proxy.is_mute = True
    asked = link.ask([get(b"k1")])
    await asyncio.sleep(0)
    began_s = asyncio.get_running_loop().time()
    proxy.half_close()
    with pytest.raises(RedisDown) as lost:
        await asked
    assert not isinstance(lost.value, BreakerOpen)
    assert asyncio.get_running_loop().time() - began_s < BUDGET_S
    with pytest.raises(BreakerOpen):
        link.ask([get(b"k1")])
    proxy.is_mute = False
    await until(lambda: link.is_open)
    assert await link.ask([get(b"k1")]) == [b"v1"]


async def test_a_half_closed_connection_with_much_unsent_is_dropped_too(link: RedisLink, proxy: TcpProxy) -> None:
    """A peer that neither reads nor answers: waiting for it to take the rest would never end."""
    proxy.half_close(is_deaf=True)
    asked = [link.ask([get(b"k" * 1_000_000)]) for _ in range(30)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(one) for one in found} == {RedisDown}
    proxy.is_mute = False
    await until(lambda: link.counts.connects == 2 and link.is_open)
    assert await link.ask([get(b"k2")]) == [b"v2"]


async def test_connections_that_are_reset_and_refused(link: RedisLink, proxy: TcpProxy) -> None:
    """Other callers' replies never come in the place of those that were lost."""
    for round_ in range(3):
        proxy.is_mute = True
        asked = [link.ask([get(b"k%d" % place)]) for place in range(50)]
        await asyncio.sleep(0.005)
        proxy.refuse()
        proxy.reset()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(result) for result in results} == {RedisDown}
        with pytest.raises(BreakerOpen):
            link.ask([get(b"k1")])
        proxy.is_mute = False
        await proxy.listen()
        await until(lambda: link.is_open)
        assert link.counts.connects == round_ + 2
        replies = await asyncio.gather(*(link.ask([get(b"k%d" % place)]) for place in range(50)))
        assert replies == [[b"v%d" % place] for place in range(50)]


async def test_a_server_that_says_nothing_is_slow_once_then_not_asked(link: RedisLink, proxy: TcpProxy) -> None:
    proxy.is_mute = True
    with pytest.raises(RedisSlow):
        await link.ask([get(b"k1")])
    with pytest.raises(BreakerOpen):
        link.ask([get(b"k1")])
    await until(lambda: link.counts.lost == 1)
    proxy.is_mute = False
    await until(lambda: link.is_open)
    assert await link.ask([get(b"k3")]) == [b"v3"]


async def test_a_server_that_is_loading_is_not_asked_before_it_has(
    program: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(SLOW_LOADING, program) as server:
        with Redis.from_url(server.url) as redis:
            redis.mset({f"k{place}": f"v{place}" for place in range(200)})
            redis.save()
        server.stop()
        server.launch()
        async with RedisLink(parse_address(server.url), BUDGET_S, 0.5) as link:
            await until(lambda: "LOADING" in told(caplog))
            with pytest.raises(BreakerOpen):
                link.ask([get(b"k1")])
            await until(lambda: link.is_open)
            assert await link.ask([get(b"k199")]) == [b"v199"]


def told(caplog: pytest.LogCaptureFixture) -> str:
    return " ".join(str(vars(record).get("error", "")) for record in caplog.records)


async def test_a_server_that_became_a_read_only_replica(
    link: RedisLink, server: RedisServer, program: str | None
) -> None:
    """Look-ups go on; write-backs are counted as refused until it may write again."""
    write_back = WriteBack(link, 10, Admission(1, 1))
    with RedisServer(program=program) as new_master, Redis.from_url(new_master.url) as master:
        master.set("k1", "newer")
        master.config_set("repl-diskless-sync-delay", 0)
        with Redis.from_url(server.url) as replica:
            replica.replicaof("127.0.0.1", new_master.port)
            await until(lambda: replica.info("replication")["master_link_status"] == "up")
            (refused,) = await link.ask([get(b"k1")])
            assert refused == b"newer"
            for _ in range(3):
                write_back.offer(b"l", b"v", 60_000)
            await until(lambda: write_back.dropped["refused"] == 3)
            assert await link.ask([get(b"k1"), get(b"l")]) == [b"newer", None]
            replica.replicaof("NO", "ONE")
            write_back.offer(b"l", b"v", 60_000)
            await until(lambda: write_back.written == 1)
            assert await link.ask([get(b"l")]) == [b"v"]
    assert link.counts.connects == 1


async def test_a_result_that_is_missed_once_is_not_written_back(link: RedisLink) -> None:
    write_back = WriteBack(link, 10, Admission(2, 100))
    for key in (b"often", b"once", b"often"):
        write_back.offer(key, b"v", 60_000)
    await until(lambda: write_back.written == 1)
    assert write_back.dropped == {"rare": 2}
    assert await link.ask([get(b"often"), get(b"once")]) == [b"v", None]


async def test_a_replica_cut_off_from_its_master(link: RedisLink, server: RedisServer) -> None:
    """It refuses by MASTERDOWN where it may not serve what is old: each command's reply, not a lost connection."""
    with Redis.from_url(server.url) as replica:
        replica.config_set("replica-serve-stale-data", "no")
        replica.replicaof("127.0.0.1", 1)
        replies = await link.ask([get(b"k1"), get(b"k2")])
        assert all(isinstance(one, hiredis.ReplyError) and str(one).startswith("MASTERDOWN") for one in replies)
        replica.replicaof("NO", "ONE")
    assert await link.ask([get(b"k1")]) == [b"v1"]
