"""One RESP connection: writes go out as they come, replies are matched to their asks in order.

The protocol is our own, not redis-py's: its per-command work costs most of a hit, and a socket taken over from
its streams would rest on private attributes. Its URL parser is used (`resp.parse_address`); TLS is asyncio's.
A caller that gave up stays in the line, so that its late reply is dropped and never reaches another caller.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, cast

import hiredis

from online.api.lookup.resp import RedisAddress, tells_cluster

_MORE = object()


class RedisDown(Exception):
    """The connection was lost, or (`BreakerOpen`) nothing was sent."""


class BreakerOpen(RedisDown):
    """Nothing was sent: no connection stands, or the last replies came too late."""


class RedisSlow(Exception):
    """No reply within the budget."""


class Sink(Protocol):
    """What an ask needs of a future. On a cluster, a share of one stands in its place."""

    def done(self) -> bool: ...
    def set_result(self, result: list[object], /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class Ask:
    """`expected` replies that one caller waits for. `timer` ends with the last ask of a write."""

    __slots__ = ("expected", "future", "replies", "timer")

    def __init__(self, expected: int, future: Sink) -> None:
        self.expected, self.future = expected, future
        self.replies: list[object] = []
        self.timer: asyncio.TimerHandle | None = None


class RespConnection(asyncio.Protocol):
    """Made by the event loop; `on_lost` is called once, after every ask was failed.

    `on_idle` is called whenever the last reply that was owed has come.
    """

    def __init__(self, on_lost: Callable[[], None], on_idle: Callable[[], None]) -> None:
        self._reader = hiredis.Reader(notEnoughData=_MORE)
        self._asks: deque[Ask] = deque()
        self._transport: asyncio.Transport | None = None
        self._on_lost, self._on_idle = on_lost, on_idle
        self.is_cluster = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def is_idle(self) -> bool:
        """Whether no reply is owed."""
        return not self._asks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def eof_received(self) -> None:
        # Otherwise what is still to be written would keep a half-closed connection, whose replies never come.
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        while self._asks:
            fail(self._asks.popleft(), RedisDown("the connection to Redis was lost"))
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        asks, gets = self._asks, self._reader.gets
        try:
            self._reader.feed(data)
            while (reply := gets()) is not _MORE:
                ask = asks[0]  # IndexError: a reply that nobody asked for
                ask.replies.append(reply)
                if len(ask.replies) == ask.expected:
                    asks.popleft()
                    if ask.timer is not None:
                        ask.timer.cancel()
                    if not ask.future.done():
                        ask.future.set_result(ask.replies)
        except (hiredis.ProtocolError, IndexError):
            self.abort()
            return
        if not asks:
            self._on_idle()

    def send(self, packed: bytes, asks: Sequence[Ask]) -> None:
        """Writes commands whose replies the asks expect, in order."""
        if self._transport is None or self._transport.is_closing():
            for ask in asks:
                fail(ask, RedisDown("the connection to Redis was lost"))
            return
        self._asks.extend(asks)
        self._transport.write(packed)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def fail(ask: Ask, error: Exception) -> None:
    if ask.timer is not None:
        ask.timer.cancel()
    if not ask.future.done():
        ask.future.set_exception(error)


async def connect(
    address: RedisAddress, timeout_s: float, on_lost: Callable[[], None], on_idle: Callable[[], None]
) -> RespConnection:
    """A greeted connection; whether its server is a node of a cluster is known.

    Raises:
        OSError: nothing listens there, or not in time (TimeoutError).
        RedisDown: the server refuses: password, database, still loading.
    """
    loop = asyncio.get_running_loop()
    connection: RespConnection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await _open(address, lambda: RespConnection(on_lost, on_idle))
            replied: asyncio.Future[list[object]] = loop.create_future()
            connection.send(b"".join(address.greeting), [Ask(len(address.greeting), replied)])
            *replies, hello, pong = await replied
        for reply in (*replies, pong):
            if isinstance(reply, hiredis.ReplyError):
                raise RedisDown(f"Redis refuses: {reply}")
        connection.is_cluster = tells_cluster(hello)
    except BaseException:
        if connection is not None:
            connection.abort()
        raise
    return connection


async def _open(address: RedisAddress, make: Callable[[], RespConnection]) -> RespConnection:
    loop = asyncio.get_running_loop()
    if address.path is not None:
        _, connection = await loop.create_unix_connection(make, address.path)
        return connection
    _, connection = await loop.create_connection(make, address.host, address.port, ssl=address.tls)
    return connection


def swallow(future: "asyncio.Future[list[object]]") -> None:
    """For a caller that has gone: its future's exception counts as seen."""
    with suppress(asyncio.CancelledError):
        future.exception()
