"""A small keep-alive HTTP/1.1 client for load on one host: enough for the replay, and cheap.

A general client costs more per request than the server being measured, and on a small machine shares its cores.
Parsing is httptools'. One request at a time on a connection; connections are made as needed, up to a bound.
"""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast

import httptools


@dataclass(slots=True)
class Response:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Connection(asyncio.Protocol):
    """One connection; `waiter` is the answer to the request in flight."""

    def __init__(self) -> None:
        self.waiter: asyncio.Future[Response] | None = None
        self.is_usable = True
        self.transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()
        self._new_answer()

    def _new_answer(self) -> None:
        self._response = Response()
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked: uvloop's transport is one in deed, not by inheritance.
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self.closed.set()
        self._fail(ConnectionResetError(f"the server closed the connection: {exc}"))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.close()
            self._fail(ConnectionError(f"not HTTP: {error}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._response.body += body

    def on_message_complete(self) -> None:
        self._response.status = self._parser.get_status_code()
        if not self._parser.should_keep_alive():
            self.close()
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(self._response)
        self._new_answer()

    def close(self) -> None:
        self.is_usable = False
        if self.transport is not None:
            self.transport.close()

    def _fail(self, error: Exception) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


class HttpClient:
    """Use as `async with`. Raises OSError or TimeoutError where no answer came."""

    def __init__(self, host: str, port: int, max_connections: int = 64) -> None:
        self._host, self._port = host, port
        self._idle: list[_Connection] = []
        self._slots = asyncio.Semaphore(max_connections)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._idle:
            connection.close()
            await connection.closed.wait()
        self._idle.clear()

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: str = "", timeout_s: float = 5.0
    ) -> Response:
        """One exchange. `headers` are whole lines, each ending in CRLF."""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{headers}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        async with self._slots, asyncio.timeout(timeout_s):
            connection = await self._connection()
            assert connection.transport is not None
            connection.waiter = asyncio.get_running_loop().create_future()
            waiter = connection.waiter
            try:
                connection.transport.write(head.encode("latin-1") + b"\r\n" + body)
                response = await waiter
            except BaseException:
                connection.close()  # an answer may still come: nobody else may get it
                raise
            if connection.is_usable:
                self._idle.append(connection)
            return response

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Connection, self._host, self._port)
        return connection
