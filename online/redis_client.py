"""redis-py's client for parts that ask Redis now and then: of one server or of a cluster, as its HELLO says.

Look-ups have their own connection (`online.api.lookup`). On a cluster the clock is, for everyone, that of the node
which holds `hs:replicas`.
"""

from typing import Any

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster
from redis.exceptions import RedisClusterException, RedisError

from schemas.keys import REPLICAS_KEY

# What a call may raise: redis-py's exceptions of clusters are no RedisError.
ERRORS = (RedisError, RedisClusterException, OSError)


def connect(url: str, timeout_s: float) -> Redis | RedisCluster:
    """Raises one of `ERRORS` where nobody answers in time."""
    redis = Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    try:
        if not _tells_cluster(redis.execute_command("HELLO")):  # type: ignore[no-untyped-call]
            return redis
    except ERRORS:
        redis.close()
        raise
    redis.close()
    return RedisCluster.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)


def now_ms(redis: Redis | RedisCluster) -> int:
    """Milliseconds since 1970 by Redis's clock."""
    if isinstance(redis, RedisCluster):
        node = redis.get_node_from_key(REPLICAS_KEY)  # type: ignore[no-untyped-call]
        return _ms(redis.time(target_nodes=node))
    return _ms(redis.time())


async def connect_async(url: str, timeout_s: float) -> AsyncRedis | AsyncRedisCluster:
    """As `connect`."""
    redis = AsyncRedis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    try:
        if not _tells_cluster(await redis.execute_command("HELLO")):  # type: ignore[no-untyped-call]
            return redis
    except ERRORS:
        await redis.aclose()
        raise
    await redis.aclose()
    cluster = AsyncRedisCluster.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    return await cluster.initialize()


async def now_ms_async(redis: AsyncRedis | AsyncRedisCluster) -> int:
    """As `now_ms`."""
    if isinstance(redis, AsyncRedisCluster):
        return _ms(await redis.time(target_nodes=redis.get_node_from_key(REPLICAS_KEY)))
    return _ms(await redis.time())


def _tells_cluster(hello: Any) -> bool:
    """A list of names and values in turn, or redis-py's dictionary of them."""
    return b"cluster" in (hello.values() if isinstance(hello, dict) else hello)


def _ms(time: Any) -> int:
    seconds, microseconds = time
    return int(seconds) * 1000 + int(microseconds) // 1000
