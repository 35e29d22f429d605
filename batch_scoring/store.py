"""Connecting to Redis from a job, and its clock, by which times that are compared with each other are taken.

Whether it is one server or a cluster shows by its reply to HELLO, which no ACL can refuse.
"""

from collections.abc import Iterable
from itertools import islice
from typing import cast

from redis import Redis, RedisCluster
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from batch_scoring.settings import BatchSettings
from schemas.keys import REPLICAS_KEY

_CHUNK = 500


def connect(settings: BatchSettings) -> Redis:
    """A client. Use as a context manager; a night may wait, so it tries a few times.

    For a cluster it is redis-py's client of clusters, which takes the same commands, and pipelines of them where
    they have keys, but is no subclass. What differs asks `nodes` or `node_of`.
    """
    url, timeout_s = settings.redis_url.get_secret_value(), settings.redis_timeout_s
    retry = Retry(ExponentialBackoff(cap=2.0, base=0.1), retries=4)
    redis = Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=retry)
    if not _is_cluster(redis):
        return redis
    redis.close()
    cluster = RedisCluster.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=retry)
    return cast(Redis, cluster)


def nodes(redis: Redis) -> list[Redis]:
    """A client for each master; the given one where there is no cluster."""
    if not isinstance(redis, RedisCluster):
        return [redis]
    return [redis.get_redis_connection(node) for node in redis.get_primaries()]


def node_of(redis: Redis, key: str) -> Redis:
    """A client of the key's master."""
    if not isinstance(redis, RedisCluster):
        return redis
    return redis.get_redis_connection(redis.get_node_from_key(key))


def now_ms(redis: Redis) -> int:
    """Milliseconds since 1970 by Redis's clock; on a cluster, as the API does, by that of a node that all know."""
    seconds, microseconds = node_of(redis, REPLICAS_KEY).time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def held(redis: Redis, keys: Iterable[str]) -> int:
    """How many of the keys exist."""
    return sum(int(redis.exists(*chunk)) for chunk in _chunks(keys))


def unlink(redis: Redis, keys: Iterable[str]) -> int:
    """Deletes keys, a bounded number at a time; returns how many there were."""
    return sum(int(redis.unlink(*chunk)) for chunk in _chunks(keys))


def _is_cluster(redis: Redis) -> bool:
    hello = redis.execute_command("HELLO")  # type: ignore[no-untyped-call]  # redis-py has no types here
    return b"cluster" in (hello.values() if isinstance(hello, dict) else hello)


def _chunks(keys: Iterable[str]) -> Iterable[list[str]]:
    rest = iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
