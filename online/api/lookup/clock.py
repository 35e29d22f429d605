"""Redis's clock as an offset to this machine's, so that times of several machines can be compared.

On a cluster every node has a clock. Everyone takes that of the node which holds `hs:replicas`: all know which one
that is, and it changes only when that key's slot moves. While it is away, the last offset stands.
"""

import asyncio
import time
from typing import Self

from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import command
from schemas.keys import REPLICAS_KEY

_TIME = [(REPLICAS_KEY.encode(), command(b"TIME"))]
_EVERY_S = 5.0
_UNTIL_FIRST_S = 0.2


class RedisClock:
    """Use as `async with`. Until Redis has answered once, its clock is taken to be this machine's."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self.offset_us = 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.offset_us

    def now_ms(self) -> int:
        return self.now_us() // 1000

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep(), name="clock")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _keep(self) -> None:
        pause_s = _UNTIL_FIRST_S
        while True:
            before_us = time.time_ns() // 1000
            try:
                (reply,) = await self._link.ask(_TIME)
                after_us = time.time_ns() // 1000
                if isinstance(reply, list):
                    redis_us = int(reply[0]) * 1_000_000 + int(reply[1])
                    self.offset_us = redis_us - (before_us + after_us) // 2
                    pause_s = _EVERY_S
            except (RedisDown, RedisSlow):
                pass
            await asyncio.sleep(pause_s)
