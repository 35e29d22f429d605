"""uvicorn's HTTP protocol with one write an answer, a short way to it, and a word when the client has gone.

uvicorn sends head and body apart, and each costs a system call, a packet and a wake-up of the client; its `send`
checks each header with two patterns. And it tells of a lost connection only to whoever awaits `receive`, which
would cost each request that waits a task of its own.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle


class OneWriteTransport(asyncio.Transport):
    """Joins what is written before `flush`, or in one turn of the event loop; the rest is the real transport's."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(bytes(data))

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(b"".join(held))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._held = []
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


# Of ASGI's scope: the connection that a request came by.
CONNECTION = "hotset.connection"


class OneWriteProtocol(HttpToolsProtocol):
    """`Config(http=OneWriteProtocol)`. Each of `on_lost` is called if the connection ends while it is in there."""

    is_lost = False
    _answering: RequestResponseCycle
    _defaults: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    async def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Answers the request at hand, instead of ASGI's `send`.

        Args:
            head: header lines, each with its end, content-length among them. Nothing in them is checked.
        """
        cycle = self._answering
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        if cycle.scope["method"] == "HEAD":
            body = b""
        self.transport.write(b"".join((STATUS_LINE[status], self._default_lines(cycle), head, end, body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def _default_lines(self, cycle: RequestResponseCycle) -> bytes:
        """The server's own headers; uvicorn makes a new list of them each second."""
        given, lines = self._defaults
        if given is not cycle.default_headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in cycle.default_headers)
            self._defaults = (cycle.default_headers, lines)
        return lines

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]

    def on_response_complete(self) -> None:
        # Now, not when all that is ready in this turn of the event loop has been answered too.
        if isinstance(self.transport, OneWriteTransport):
            self.transport.flush()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_lost = True
        for call in tuple(self.on_lost):
            call()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.on_lost: set[Callable[[], None]] = set()
        super().connection_made(OneWriteTransport(cast(asyncio.Transport, transport)))
