"""A kept connection to a server of Redis: asks share a write, within a budget.

What is asked in one turn of the event loop goes out together; what is asked while replies are owed goes out when
they have come. So a write carries the more the busier it is, and a lone ask waits for nothing.

`ask` never waits to connect. While there is no connection, or after a reply came too late, it refuses at once
(`BreakerOpen`); a task probes in the background and lets asks through again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from online.api.lookup.connection import (
    Ask,
    BreakerOpen,
    RedisDown,
    RedisSlow,
    RespConnection,
    Sink,
    connect,
    fail,
    swallow,
)
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


class ServerLink:
    """Between `start` and `close`; every future it gave is resolved when it is closed.

    Args:
        counts: shared by the links of a cluster.
        on_connected: called with whether the server is a node of a cluster, before asks are let through.
        on_lost: called when a connection that stood is lost.
    """

    def __init__(
        self,
        address: RedisAddress,
        budget_s: float,
        connect_timeout_s: float,
        counts: LinkCounts,
        on_connected: Callable[[bool], None] = lambda is_cluster: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.address, self._budget_s, self._connect_timeout_s = address, budget_s, connect_timeout_s
        self._tell_connected, self._tell_lost = on_connected, on_lost
        self._connection: RespConnection | None = None
        self._out: list[bytes] = []
        self._asks: list[Ask] = []
        self._is_open = False
        self._changed = asyncio.Event()
        self.counts = counts

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._keep(), name="redis link")

    async def close(self) -> None:
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
            BreakerOpen: at once.
        """
        if not self._is_open:
            raise _closed()
        future = self._loop.create_future()
        self.put([packed for _, packed in commands], Ask(len(commands), future))
        return future

    def send(self, commands: Sequence[Command], sink: Sink) -> None:
        """As `ask`; the sink is told at once when the replies are read, or that there will be none."""
        if not self._is_open:
            sink.set_exception(_closed())
            return
        if not self._asks:
            self._loop.call_soon(self._flush)
        self._asks.append(Ask(len(commands), sink))
        for _, packed in commands:
            self._out.append(packed)

    def put(self, packed: Sequence[bytes], ask: Ask) -> None:
        """The same for commands whose replies `ask` expects; the link is open."""
        if not self._asks:
            self._loop.call_soon(self._flush)
        self._asks.append(ask)
        self._out += packed

    def _flush(self) -> None:
        if self._connection is None:
            self._fail_held(RedisDown("the connection to Redis was lost"))
        elif self._asks and self._connection.is_idle:
            asks, packed = self._asks, b"".join(self._out)
            self._asks, self._out = [], []
            asks[-1].timer = self._loop.call_later(self._budget_s, self._look_again, asks)
            self._connection.send(packed, asks)

    def _fail_held(self, error: Exception) -> None:
        """What was asked and not sent."""
        asks, self._asks, self._out = self._asks, [], []
        for ask in asks:
            fail(ask, error)

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
        # They would wait for the same replies, and then for their own.
        self._fail_held(_closed())

    def _on_lost(self) -> None:
        if self._connection is not None and not self._connection.is_open:
            self._connection, self._is_open = None, False
            self.counts.lost += 1
            self._fail_held(RedisDown("the connection to Redis was lost"))
            self._tell_lost()
        self._changed.set()

    async def _keep(self) -> None:
        pauses = Pauses()
        told = ""
        while True:
            try:
                self._connection = await connect(self.address, self._connect_timeout_s, self._on_lost, self._flush)
            except (OSError, RedisDown) as error:
                why = str(error) or type(error).__name__
                if why != told:
                    log.warning("Redis cannot be reached", extra={"server": self.address.name, "error": why})
                told = why
                await asyncio.sleep(pauses.next_s())
                continue
            log.info("connected to Redis", extra={"server": self.address.name})
            self._tell_connected(self._connection.is_cluster)
            self._is_open, told = True, ""
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
        pong: asyncio.Future[list[object]] = self._loop.create_future()
        pong.add_done_callback(swallow)
        began_s = self._loop.time()
        connection.send(_PING, [Ask(1, pong)])
        with suppress(RedisDown, TimeoutError):
            async with asyncio.timeout(_HOPELESS_S):
                replies = await pong
            if replies != [b"PONG"] and replies != ["PONG"]:
                # Replies have come apart from their questions: what this connection says is not to be believed.
                log.error("the reply to a PING is none: the connection is dropped")
                connection.abort()
                return False
            return self._loop.time() - began_s <= self._budget_s
        connection.abort()
        return False


def _closed() -> BreakerOpen:
    return BreakerOpen("no connection to Redis, or its breaker is open")
