"""Listens on the models' pub/sub channels, so that a switch is followed at once. Polling covers what is missed."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from redis.asyncio import Redis
from redis.exceptions import RedisError

from online.pauses import Pauses
from schemas.keys import routes_channel

log = logging.getLogger(__name__)

_END_S = 1.0


class Announcements:
    """Use as `async with`. redis-py keeps this connection: nothing on it is urgent or frequent."""

    def __init__(
        self, url: str, models: tuple[str, ...], connect_timeout_s: float, wake: Callable[[], None]
    ) -> None:
        self._redis = Redis.from_url(url, socket_connect_timeout=connect_timeout_s, socket_timeout=None)
        self._channels = [routes_channel(model) for model in models]
        self._wake = wake

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen(), name="announcements")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        # Bounded: a client library that takes a cancellation for a lost connection may not hold up the drain.
        await asyncio.wait([self._task], timeout=_END_S)
        with suppress(RedisError, OSError):
            await self._redis.aclose()

    async def _listen(self) -> None:
        pauses = Pauses()
        while True:
            try:
                async with self._redis.pubsub() as subscription:
                    await subscription.subscribe(*self._channels)
                    async for _ in subscription.listen():
                        pauses.reset()
                        self._wake()
            except (RedisError, OSError) as error:
                log.debug("announcements are lost", extra={"error": str(error)})
            await asyncio.sleep(pauses.next_s())
