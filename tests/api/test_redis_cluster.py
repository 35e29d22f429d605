"""The link to a real cluster of three masters: each command to the node of its key, each node's faults its own."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import hiredis
import pytest
from redis import Redis, RedisCluster
from redis.crc import key_slot

from online.api.lookup.clock import RedisClock
from online.api.lookup.connection import BreakerOpen, RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import command, get, hget, parse_address, set_px
from tests.support.redis_cluster import ClusterServers, running_cluster
from tests.support.redis_server import RedisServer, debian_redis
from tests.support.until import until, until_open

BUDGET_S = 0.05
KEYS = [b"k%d" % place for place in range(300)]


@pytest.fixture(scope="module")
def cluster(redis_cluster: ClusterServers) -> ClusterServers:
    with RedisCluster.from_url(redis_cluster.url) as redis:
        for key in KEYS:
            redis.set(key, b"v" + key)
    return redis_cluster


@pytest.fixture
async def link(cluster: ClusterServers) -> AsyncIterator[RedisLink]:
    async with RedisLink(parse_address(cluster.url), BUDGET_S, 1.0) as link:
        await until_open(link)
        yield link


async def test_each_key_is_answered_by_its_node_in_order(link: RedisLink) -> None:
    assert len(link.nodes) == 3
    asks = [link.ask([get(key), hget(b"none", b"f"), get(KEYS[0])]) for key in KEYS]
    for key, replies in zip(KEYS, await asyncio.gather(*asks), strict=True):
        assert replies == [b"v" + key, None, b"v" + KEYS[0]]


async def test_asks_of_one_tick_share_a_write_to_each_node(link: RedisLink, cluster: ClusterServers) -> None:
    """So the servers count few reads of their sockets for many commands."""
    await link.ask([get(KEYS[0])])
    before = reads(cluster)
    await asyncio.gather(*(link.ask([get(key)]) for key in KEYS))
    assert reads(cluster) - before < 100


def reads(cluster: ClusterServers) -> int:
    found = 0
    for node in cluster.nodes:
        with Redis.from_url(node.url) as redis:
            found += int(redis.info("stats")["total_reads_processed"])
    return found


async def test_an_error_is_the_reply_of_its_command_alone(link: RedisLink) -> None:
    wrong, right = await link.ask([hget(KEYS[0], b"f"), get(KEYS[1])])
    assert isinstance(wrong, hiredis.ReplyError)
    assert str(wrong).startswith("WRONGTYPE")
    assert right == b"v" + KEYS[1]


async def test_callers_that_give_up_leave_no_reply_to_others(link: RedisLink) -> None:
    async def one(place: int) -> None:
        keys = [KEYS[(place + step) % len(KEYS)] for step in range(3)]
        assert await link.ask([get(key) for key in keys]) == [b"v" + key for key in keys]

    for _ in range(20):
        tasks = [asyncio.create_task(one(place)) for place in range(90)]
        for task in tasks[::3]:
            await asyncio.sleep(0)
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(found is None or isinstance(found, asyncio.CancelledError) for found in results)
        assert results.count(None) >= 60


async def test_a_node_that_hangs_is_slow_for_its_keys_alone_then_refused(
    link: RedisLink, cluster: ClusterServers
) -> None:
    mine, others = split(cluster, KEYS[0])
    node = cluster.node_of(KEYS[0])
    node.freeze()
    try:
        commands = [get(mine[0]), get(others[0]), get(mine[1]), get(others[1])]
        first = await link.ask(commands)
        assert [type(reply) for reply in first] == [RedisSlow, bytes, RedisSlow, bytes]
        began = asyncio.get_running_loop().time()
        later = await link.ask(commands)
        assert asyncio.get_running_loop().time() - began < BUDGET_S
        assert [type(reply) for reply in later] == [BreakerOpen, bytes, BreakerOpen, bytes]
        assert not link.is_open
    finally:
        node.thaw()
    await until_open(link)
    assert await link.ask(commands) == [b"v" + key for key in (mine[0], others[0], mine[1], others[1])]


def split(cluster: ClusterServers, key: bytes) -> tuple[list[bytes], list[bytes]]:
    """The keys of that key's node, and those of the others."""
    with Redis.from_url(cluster.url) as redis:
        ranges = [entry[:2] for entry in redis.execute_command("CLUSTER SLOTS")]
    first, last = next(one for one in ranges if one[0] <= key_slot(key) <= one[1])
    mine = [one for one in KEYS if first <= key_slot(one) <= last]
    return mine, [one for one in KEYS if one not in mine]


async def test_a_lost_connection_fails_its_nodes_commands_at_once(
    link: RedisLink, cluster: ClusterServers
) -> None:
    mine, others = split(cluster, KEYS[0])
    with Redis.from_url(cluster.node_of(KEYS[0]).url) as redis:
        redis.client_pause(300)
        asked = link.ask([get(mine[0]), get(others[0])])
        await asyncio.sleep(0)
        redis.client_kill_filter(_type="normal", skipme=True)
    lost, found = await asked
    assert isinstance(lost, RedisDown)
    assert not isinstance(lost, BreakerOpen)
    assert found == b"v" + others[0]
    await until_open(link)
    assert await link.ask([get(mine[0])]) == [b"v" + mine[0]]


async def test_a_slot_that_moves_costs_one_look_up(link: RedisLink, cluster: ClusterServers) -> None:
    """While it migrates, what has gone already (ASK) is a miss; then one MOVED corrects the map."""
    key = b"{wanders}"
    here = cluster.node_of(key)
    there = next(node for node in cluster.nodes if node is not here)
    slot = key_slot(key)
    assert await link.ask([set_px(key, b"value", 60_000)]) == [b"OK"]
    with Redis.from_url(here.url) as source, Redis.from_url(there.url) as target:
        names = [client.execute_command("CLUSTER MYID") for client in (source, target)]
        target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[0])
        source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[1])
        source.execute_command("MIGRATE", "127.0.0.1", there.port, key, 0, 1000)
        (asked,) = await link.ask([get(key)])
        assert str(asked).startswith("ASK ")
        for client in (target, source):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[1])
    (moved,) = await link.ask([get(key)])
    assert str(moved).startswith("MOVED ")
    assert await link.ask([get(key)]) == [b"value"]


async def test_commands_without_a_key_and_the_clock(link: RedisLink) -> None:
    (pong,) = await link.ask([(b"", command(b"PING"))])
    assert pong == b"PONG"
    async with RedisClock(link) as clock:
        clock.offset_us = 10**9
        await until(lambda: abs(clock.offset_us) < 10**6)


@pytest.mark.fault
async def test_without_the_cluster_everything_is_refused_at_once() -> None:
    with running_cluster() as servers:
        async with RedisLink(parse_address(servers.url), BUDGET_S, 0.5) as link:
            await until_open(link)
            for node in servers.nodes:
                node.stop()
            await until(lambda: not any(node.is_open for node in link.nodes))
            replies = await link.ask([get(key) for key in KEYS])
            assert {type(reply) for reply in replies} == {BreakerOpen}
            for node in servers.nodes:
                node.start()
            await until_open(link)
            assert [reply async for reply in answers(link)][-1] == [None] * 3


async def answers(link: RedisLink) -> AsyncIterator[list[object]]:
    """Until all three nodes know again that they are a cluster."""
    for _ in range(250):
        found = await link.ask([get(KEYS[0]), get(KEYS[1]), get(KEYS[2])])
        yield found
        if found == [None] * 3:
            return
        await asyncio.sleep(0.02)


@pytest.mark.fault
@pytest.mark.parametrize("program", ["valkey", "redis"])
async def test_a_dead_masters_replica_takes_over(program: str) -> None:
    """Its keys are errors until the replica is master, then replies again; the other keys are replies always."""
    make_node = partial(RedisServer, program=debian_redis()) if program == "redis" else RedisServer
    with running_cluster(make_node) as servers:
        with RedisCluster.from_url(servers.url) as redis:
            for key in KEYS:
                redis.set(key, b"v" + key)
        mine, others = split(servers, KEYS[0])
        master = servers.node_of(KEYS[0])
        servers.add_replica(master)
        async with RedisLink(parse_address(servers.url), BUDGET_S, 0.5) as link:
            await until_open(link)
            assert await link.ask([get(mine[0]), get(others[0])]) == [b"v" + mine[0], b"v" + others[0]]
            master.stop()
            for _ in range(1000):
                found, other = await link.ask([get(mine[0]), get(others[0])])
                assert other == b"v" + others[0]
                if found == b"v" + mine[0]:
                    break
                assert isinstance(found, RedisDown | RedisSlow)
                await asyncio.sleep(0.01)
            assert await link.ask([get(key) for key in KEYS]) == [b"v" + key for key in KEYS]
