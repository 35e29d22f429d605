"""Connecting to Redis from a job, and its clock, by which times that are compared with each other are taken.

Whether it is one server or a cluster shows by its reply to HELLO, which no ACL can refuse.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, Self, TypeVar, cast

from redis import Redis, RedisCluster
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from batch_scoring.settings import BatchSettings
from schemas.keys import REPLICAS_KEY

_CHUNK = 500
# Without limit, a deletion lets others in between its writes all the same.
_SLOW_CHUNK = 50
# Buckets or fields that are read in one go: a third of a millisecond of buckets (20 µs each, Valkey 9.1).
_ASKED_AT_ONCE = 16
T = TypeVar("T")


class Pace:
    """Lets one caller do so much in a second, without making up for what it did not do.

    Args:
        per_s: None for no limit.
    """

    def __init__(self, per_s: float | None) -> None:
        self.per_s = per_s
        self._next_s = time.monotonic()

    @classmethod
    def of(cls, settings: BatchSettings, sharers: int = 1, weight: float = 1.0) -> Self:
        """Of `max_entities_per_s`, which as many callers share. `weight`: how much of an entity each one costs."""
        most = settings.max_entities_per_s
        return cls(most / max(1, sharers) / weight if most else None)

    def most_in(self, seconds: float, otherwise: int) -> int:
        """How many a write may have, so that one goes out about each so many seconds."""
        return otherwise if self.per_s is None else max(1, min(otherwise, int(self.per_s * seconds)))

    def wait(self, count: int) -> None:
        """Returns when `count` more may be done."""
        if self.per_s is None:
            return
        now_s = time.monotonic()
        if self._next_s > now_s:
            time.sleep(self._next_s - now_s)
        self._next_s = max(self._next_s, now_s) + count / self.per_s


def connect(settings: BatchSettings) -> Redis:
    """A client. Use as a context manager; a night may wait, so it tries a few times.

    For a cluster it is redis-py's client of clusters, which takes the same commands, and pipelines of them where
    they have keys, but is no subclass. What differs asks `nodes` or `node_of`.
    """
    url, timeout_s = settings.redis_url.get_secret_value(), settings.redis_timeout_s
    retry = Retry(ExponentialBackoff(cap=2.0, base=0.1), retries=4)
    # RESP2, in which the reply to HGETALL holds the very bytes that HSET was given (`batch_scoring.link`).
    options: dict[str, Any] = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s, "protocol": 2}
    redis = Redis.from_url(url, retry=retry, **options)
    if not _is_cluster(redis):
        return redis
    redis.close()
    cluster = RedisCluster.from_url(url, retry=retry, **options)
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


def life(redis: Redis) -> str:
    """Names the processes that hold the data now: another name means a restart or a failover, which may have lost
    what was written last.
    """
    ids = sorted(str(node.info("server")["run_id"]) for node in nodes(redis))
    return blake2b(" ".join(ids).encode(), digest_size=8).hexdigest()


def held(redis: Redis, keys: Iterable[str]) -> int:
    """How many of the keys exist."""
    return sum(_each(redis, "EXISTS", chunk) for chunk in _chunks(keys, _CHUNK))


def in_turns(wanted: Iterable[T], ask: Callable[[list[T]], list[object]]) -> Iterator[tuple[T, object]]:
    """Each with its reply. `ask` gets some at a time: what answers a pipeline answers nobody else meanwhile."""
    for some in _chunks(wanted, _ASKED_AT_ONCE):
        yield from zip(some, ask(some), strict=True)


def unlink(redis: Redis, keys: Iterable[str], pace: Pace | None = None) -> int:
    """Deletes keys, a bounded number at a time; returns how many there were.

    Args:
        pace: of buckets.
    """
    pace, gone = pace or Pace(None), 0
    for chunk in _chunks(keys, _CHUNK if pace.per_s is None else _SLOW_CHUNK):
        pace.wait(len(chunk))
        gone += _each(redis, "UNLINK", chunk)
    return gone


def _each(redis: Redis, command: str, keys: list[str]) -> int:
    """The sum of the replies; on a cluster in one write for each node, since the keys are of many slots."""
    if not isinstance(redis, RedisCluster):
        return int(redis.execute_command(command, *keys))  # type: ignore[no-untyped-call]
    pipeline = redis.pipeline(transaction=False)
    for key in keys:
        pipeline.execute_command(command, key)
    return sum(map(int, pipeline.execute()))


def _is_cluster(redis: Redis) -> bool:
    hello = redis.execute_command("HELLO")  # type: ignore[no-untyped-call]  # redis-py has no types here
    return b"cluster" in (hello.values() if isinstance(hello, dict) else hello)


def _chunks(keys: Iterable[T], size: int) -> Iterable[list[T]]:
    rest = iter(keys)
    while chunk := list(islice(rest, size)):
        yield chunk
