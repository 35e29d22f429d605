"""Announces the replica in Redis, for the gate and the monitor. Serving never depends on it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import orjson
from redis.asyncio import Redis, RedisCluster

from online.redis_client import ERRORS, connect_async, now_ms_async
from schemas.keys import REPLICAS_KEY

log = logging.getLogger(__name__)

_EVERY_S = 5.0
_TIMEOUT_S = 2.0


class Registry:
    """Writes `document()` and `at_ms`, by Redis's clock, under the replica's name: each few seconds, or sooner."""

    def __init__(self, url: str, name: str, document: Callable[[], dict[str, object]]) -> None:
        self._name, self._document = name, document
        self._url = url
        self._redis: Redis | RedisCluster | None = None
        self._is_down = False
        self._changed = asyncio.Event()

    def hurry(self) -> None:
        """Something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled; then the name is taken back."""
        task = asyncio.current_task()
        assert task is not None
        try:
            # Asked, not awaited: a client library that takes a cancellation for a lost connection swallows it.
            while not task.cancelling():
                self._changed.clear()
                await self._announce()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EVERY_S):
                        await self._changed.wait()
        finally:
            if self._redis is not None:
                await self._withdraw(self._redis)
                await self._redis.aclose()

    async def _announce(self) -> None:
        try:
            redis = self._redis = self._redis or await connect_async(self._url, _TIMEOUT_S)
            document = {"at_ms": await now_ms_async(redis), **self._document()}
            await redis.hset(REPLICAS_KEY, self._name, orjson.dumps(document))
        except ERRORS as error:
            if not self._is_down:
                log.warning("Redis does not answer, the replica is not announced: %s", error)
            self._is_down = True
        else:
            self._is_down = False

    async def _withdraw(self, redis: Redis | RedisCluster) -> None:
        try:
            await redis.hdel(REPLICAS_KEY, self._name)
        except ERRORS as error:
            log.warning("Redis does not answer, the replica's entry stays: %s", error)
