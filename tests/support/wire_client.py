"""A small client of the inference tier's wire, for tests: one connection to a worker or to a node's directory."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

from schemas import wire
from schemas.wire import FrameType, Result, Tensor

Document = dict[str, Any]


class Failed(Exception):
    """A request was answered with a failure frame."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.code, self.message, self.retry_after_ms = failure.code, failure.message, failure.retry_after_ms


class WireClient:
    """Use `connect`. `hello` and `statuses` are what the other side has said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = wire.FrameReader()
        self._waiting: dict[int, asyncio.Future[Result]] = {}
        self._ids = itertools.count(1)
        self._news = asyncio.Condition()
        self.hello: Document = {}
        self.statuses: list[Document] = []
        self.answers_in_reads: list[int] = []
        self.is_closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, address: str, say_hello: bool = True) -> AsyncIterator[Self]:
        """`address`: host:port, or the path of a Unix socket."""
        if address.startswith("/"):
            reader, writer = await asyncio.open_unix_connection(address)
        else:
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
        client = cls(reader, writer)
        client._task = asyncio.create_task(client._read())
        try:
            if say_hello:
                client.send(wire.hello({"role": "test"}))
                await client.until(lambda: bool(client.hello and client.statuses))
            yield client
        finally:
            await client.close()

    def send(self, frames: bytes) -> None:
        self._writer.write(frames)

    def start(
        self,
        digest: str,
        tensors: list[Tensor],
        *,
        deadline_s: float = 0.0,
        priority: int = 0,
    ) -> tuple[int, asyncio.Future[Result]]:
        """Sends a request: its id and the future of its result, which raises Failed or ConnectionError."""
        request_id = next(self._ids)
        future = self.expect(request_id)
        deadline_us = round(deadline_s * 1e6)
        self.send(wire.request(wire.Request(request_id, wire.version_tag(digest), priority, deadline_us, tensors)))
        return request_id, future

    def expect(self, request_id: int) -> asyncio.Future[Result]:
        self._waiting[request_id] = future = asyncio.get_running_loop().create_future()
        return future

    async def ask(self, digest: str, tensors: list[Tensor], **options: Any) -> Result:
        return await self.start(digest, tensors, **options)[1]

    async def until(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Waits for frames until the condition holds."""
        async with asyncio.timeout(timeout_s), self._news:
            await self._news.wait_for(condition)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """As a client that dies."""
        self._writer.transport.abort()

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                answers = 0
                for kind, body in self._frames.feed(data):
                    answers += kind in (FrameType.RESULT, FrameType.ERROR)
                    self._take(kind, body)
                self.answers_in_reads.append(answers)
                async with self._news:
                    self._news.notify_all()
        except ConnectionError:
            pass
        finally:
            self.is_closed.set()
            self._writer.close()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the worker closed the connection"))
                    future.exception()  # whoever awaits it sees it; nobody has to

    def _take(self, kind: FrameType, body: memoryview) -> None:
        match kind:
            case FrameType.HELLO:
                self.hello = wire.parse_document(body)
            case FrameType.STATUS:
                self.statuses.append(wire.parse_document(body))
            case FrameType.RESULT:
                result = wire.parse_result(body)
                self._waiting.pop(result.request_id).set_result(result)
            case FrameType.ERROR:
                failure = wire.parse_failure(body)
                self._waiting.pop(failure.request_id).set_exception(Failed(failure))
            case _:
                raise AssertionError(f"a worker sent {kind.name}")
