"""Connecting to Redis from a job, and its clock, by which times that are compared with each other are taken."""

from collections.abc import Iterable
from itertools import islice

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from batch_scoring.settings import BatchSettings

_CHUNK = 500


def connect(settings: BatchSettings) -> Redis:
    """A client of one connection. Use as a context manager; a night may wait, so it tries a few times."""
    return Redis.from_url(
        settings.redis_url.get_secret_value(),
        socket_timeout=settings.redis_timeout_s,
        socket_connect_timeout=settings.redis_timeout_s,
        retry=Retry(ExponentialBackoff(cap=2.0, base=0.1), retries=4),
    )


def now_ms(redis: Redis) -> int:
    """Milliseconds since 1970 by Redis's clock."""
    seconds, microseconds = redis.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def held(redis: Redis, keys: Iterable[str]) -> int:
    """How many of the keys exist."""
    return sum(int(redis.exists(*chunk)) for chunk in _chunks(keys))


def unlink(redis: Redis, keys: Iterable[str]) -> int:
    """Deletes keys, a bounded number at a time; returns how many there were."""
    return sum(int(redis.unlink(*chunk)) for chunk in _chunks(keys))


def _chunks(keys: Iterable[str]) -> Iterable[list[str]]:
    rest = iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
