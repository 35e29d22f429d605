"""Readers that ask for whole buckets and do not read: what Redis holds back for them counts as memory.

Written-back results are evicted for it, a generation never; publishing gives up with the numbers.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from redis import Redis

from schemas.keys import bucket_key, live_key
from tests.drills.world import ENTITIES, MODEL, PERSISTENT, World
from tests.support.api_process import wait_for
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.fault

_WRITTEN_BACK = 20_000
_ROOM_BYTES = 24 << 20
_READERS, _ASKED = 30, 200
# As production has it for a replica that is slow, only smaller.
_REPLICA_LIMIT = ("--client-output-buffer-limit", "replica 8mb 4mb 10", "--repl-backlog-size", "1mb")


@pytest.fixture(scope="module")
def options() -> tuple[str, ...]:
    return (*PERSISTENT, *_REPLICA_LIMIT, "--repl-diskless-sync-delay", "0")


@contextmanager
def deaf_readers(world: World, generation: str) -> Iterator[None]:
    """Each asks for all buckets until the server takes no more of it."""
    names = [bucket_key(MODEL, "1", generation, bucket).encode() for bucket in range(10)]
    asks = b"".join(b"*2\r\n$7\r\nHGETALL\r\n$%d\r\n%b\r\n" % (len(name), name) for name in names)
    with ExitStack() as stack:
        for _ in range(_READERS):
            reader = stack.enter_context(socket.create_connection(("127.0.0.1", world.server.port)))
            # Little is on its way to it: the rest waits in the server.
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(asks * _ASKED)
        yield


def test_nothing_of_a_generation_goes(world: World) -> None:
    redis, before = world.redis, world.live()
    assert before
    run, number = world.night()
    pipeline = redis.pipeline(transaction=False)
    for i in range(_WRITTEN_BACK):
        pipeline.set(live_key(MODEL, "1", b"entity%d" % i), b"v" * 21, ex=3600)
    pipeline.execute()
    redis.config_set("maxmemory-policy", "volatile-lfu")
    redis.config_set("maxmemory", redis.info("memory")["used_memory"] + _ROOM_BYTES)
    with (
        RedisServer(["--replicaof", f"127.0.0.1 {world.server.port}"]) as server,
        Redis.from_url(server.url) as copy,
    ):
        wait_for(lambda: copy.info("replication")["master_link_status"] == "up", what="a replica in sync")
        with deaf_readers(world, before):
            with world.lookups.losing():  # while the server is busy with them, a look-up may be late
                wait_for(lambda: redis.info("stats")["evicted_keys"] > 0, 30, "evictions")
            with world.apart("publish", run) as job:
                status = job.wait()
            assert status in (1, 2), job.said
            assert " bytes" in job.said
            assert "Traceback" not in job.said
            world.still_old(before)
            assert len(world.fields("1", before)) == len(ENTITIES)
        world.complete(run, number)
        wait_for(lambda: copy.exists(bucket_key(MODEL, "1", run.generation, 0)), what="the replica")
        assert redis.info("stats")["sync_full"] <= 2, "the replica began anew again and again"
    assert redis.info("stats")["evicted_keys"] <= _WRITTEN_BACK
    redis.config_set("maxmemory", 0)
