"""A kept connection to Redis: asks of one event-loop tick share one write, within a budget, behind a breaker.

`ask` never waits to connect. While there is no connection, or after a reply came too late, it refuses at once
(`RedisDown`); a task probes in the background and lets asks through again.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from online.api.lookup.connection import Ask, RedisDown, RedisSlow, RespConnection, connect, fail, swallow
from online.api.lookup.resp import Command, RedisAddress, command
from online.pauses import Pauses

log = logging.getLogger(__name__)

_PING = command(b"PING")
# Once the budget is over, what already lies in the socket is still read: a busy event loop runs its timers first.
_SECOND_LOOK_S = 0.001
_PROBE_PAUSE_S = 0.02
# A server that owes replies for so long is dropped; what it owes can then never meet another caller.
_HOPELESS_S = 1.0


@dataclass(slots=True)
class LinkCounts:
    """Totals since the start."""

    slow: int = 0
    lost: int = 0
    connects: int = 0


class RedisLink:
    """Use as `async with`; every future it gave is resolved when the block ends."""

    def __init__(self, address: RedisAddress, budget_s: float, connect_timeout_s: float) -> None:
        self._address, self._budget_s, self._connect_timeout_s = address, budget_s, connect_timeout_s
        self._connection: RespConnection | None = None
        self._out: list[bytes] = []
        self._asks: list[Ask] = []
        self._is_open = False
        self._changed = asyncio.Event()
        self.counts = LinkCounts()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._keep(), name="redis link")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_open = False
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._connection is not None:
            self._connection.abort()

    @property
    def is_open(self) -> bool:
        """Whether an ask would be sent now."""
        return self._is_open

    def ask(self, commands: Sequence[Command]) -> "asyncio.Future[list[object]]":
        """Sends commands, one at least, with the next write.

        Returns:
            Their replies in order, error replies as `hiredis.ReplyError`; or RedisSlow, RedisDown.

        Raises:
            RedisDown: at once.
        """
        if not self._is_open:
            raise RedisDown("no connection to Redis, or its breaker is open")
        ask = Ask(len(commands), self._loop.create_future())
        if not self._asks:
            self._loop.call_soon(self._flush)
        self._asks.append(ask)
        self._out += [asked.packed for asked in commands]
        return ask.future

    def _flush(self) -> None:
        asks, packed = self._asks, b"".join(self._out)
        self._asks, self._out = [], []
        if self._connection is None:
            for ask in asks:
                fail(ask, RedisDown("the connection to Redis was lost"))
            return
        asks[-1].timer = self._loop.call_later(self._budget_s, self._look_again, asks)
        self._connection.send(packed, asks)

    def _look_again(self, asks: Sequence[Ask]) -> None:
        asks[-1].timer = self._loop.call_later(_SECOND_LOOK_S, self._expire, asks)

    def _expire(self, asks: Sequence[Ask]) -> None:
        late = [ask for ask in asks if len(ask.replies) < ask.expected]
        if not late:
            return
        self.counts.slow += len(late)
        for ask in late:
            fail(ask, RedisSlow("no reply within the budget"))
        if self._is_open:
            self._is_open = False
            self._changed.set()

    def _on_lost(self) -> None:
        if self._connection is not None and not self._connection.is_open:
            self._connection, self._is_open = None, False
            self.counts.lost += 1
        self._changed.set()

    async def _keep(self) -> None:
        pauses = Pauses()
        was_told = False
        while True:
            try:
                self._connection = await connect(self._address, self._connect_timeout_s, self._on_lost)
            except (OSError, RedisDown) as error:
                if not was_told:
                    log.warning("Redis cannot be reached", extra={"error": str(error) or type(error).__name__})
                was_told = True
                await asyncio.sleep(pauses.next_s())
                continue
            log.info("connected to Redis")
            self._is_open, was_told = True, False
            self.counts.connects += 1
            pauses.reset()
            await self._watch(self._connection)
            await asyncio.sleep(pauses.next_s())

    async def _watch(self, connection: RespConnection) -> None:
        """Returns once the connection is lost; until then, re-opens what a late reply closed."""
        while connection.is_open:
            if self._is_open:
                await self._changed.wait()
                self._changed.clear()
            elif await self._answers_in_time(connection):
                self._is_open = True
            else:
                await asyncio.sleep(_PROBE_PAUSE_S)

    async def _answers_in_time(self, connection: RespConnection) -> bool:
        ask = Ask(1, self._loop.create_future())
        ask.future.add_done_callback(swallow)
        began_s = self._loop.time()
        connection.send(_PING, [ask])
        with suppress(RedisDown, TimeoutError):
            async with asyncio.timeout(_HOPELESS_S):
                await ask.future
            return self._loop.time() - began_s <= self._budget_s
        connection.abort()
        return False
