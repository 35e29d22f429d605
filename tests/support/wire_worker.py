"""A node and its workers in a thread, by `schemas.wire` over real sockets, with a numpy model instead of torch.

It stands for the inference tier in tests of the API alone; the real tier is met in the end-to-end tests.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from schemas import wire
from schemas.manifest import Manifest, bundle_digest

Forward = Callable[[dict[str, wire.Tensor]], wire.Float32Array]


@dataclass
class Served:
    """One version: `forward` takes tensors by name and gives (n, K) raw outputs. The rest is what tests turn.

    Attributes:
        delay_s: how long an answer takes; changed while it runs.
        refuse_with: a failure's code for every request, while set.
        requests, rows, cancels: what came; `priorities` of the requests.
    """

    manifest: Manifest
    digest: str
    forward: Forward
    delay_s: float = 0.0
    refuse_with: str | None = None
    requests: int = 0
    rows: int = 0
    cancels: int = 0
    priorities: list[int] = field(default_factory=list)
    state: str = "ready"
    address: str = ""
    open: set[asyncio.StreamWriter] = field(default_factory=set)


def served(manifest_json: bytes, forward: Forward, **more: Any) -> Served:
    manifest = Manifest.model_validate_json(manifest_json)
    return Served(manifest, bundle_digest(manifest_json), forward, **more)


class WireNode:
    """Use as `with`; `address` is the directory's. Worker sockets are on ephemeral ports."""

    def __init__(self, *versions: Served, port: int = 0) -> None:
        self.versions = versions
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """As if the machine went away: every connection is cut."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def cut(self, version: Served) -> None:
        """Loses a version's connections, as a crash of its worker would."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in list(version.open)])

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._ready.set()
        self._loop.run_forever()

    async def _open(self) -> None:
        for version in self.versions:
            server = await asyncio.start_server(self._handler(self._work, version), "127.0.0.1", 0)
            version.address = _address(server)
            self._servers.append(server)
        directory = await asyncio.start_server(self._handler(self._direct, None), "127.0.0.1", self._port)
        self.address = _address(directory)
        self._servers.append(directory)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for version in self.versions:
            for writer in list(version.open):
                writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _handler(self, serve: Callable[..., Any], version: Served | None) -> Callable[..., Any]:
        async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await (serve(version, reader, writer) if version else serve(reader, writer))
            except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
                pass
            finally:
                self._tasks.discard(task)
                writer.transport.abort()

        return on_connection

    async def _direct(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _greeting(reader)
        writer.write(wire.hello({"role": "node", "node": "test"}))
        while not writer.is_closing():
            entries = [
                {
                    "model": version.manifest.name,
                    "version": version.manifest.version,
                    "digest": version.digest,
                    "address": version.address,
                    "state": version.state,
                }
                for version in self.versions
            ]
            writer.write(wire.status({"node": "test", "versions": entries}))
            await asyncio.sleep(0.1)

    def _push_status(self, version: Served, writer: asyncio.StreamWriter) -> None:
        """Now and each half second: a worker that says nothing is taken for dead."""
        if not writer.is_closing():
            writer.write(wire.status({"state": version.state}))
            self._loop.call_later(0.5, self._push_status, version, writer)

    async def _work(self, version: Served, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version.open.add(writer)
        try:
            frames = await _greeting(reader)
            manifest = version.manifest
            writer.write(
                wire.hello(
                    {
                        "role": "worker",
                        "model": manifest.name,
                        "version": manifest.version,
                        "digest": version.digest,
                        "outputs": manifest.output_names,
                    }
                )
            )
            self._push_status(version, writer)
            asking: dict[int, asyncio.TimerHandle] = {}
            while data := await reader.read(1 << 16):
                for kind, body in frames.feed(data):
                    if kind is wire.FrameType.CANCEL:
                        version.cancels += 1
                        if (timer := asking.pop(wire.parse_id(body), None)) is not None:
                            timer.cancel()
                    else:
                        request = wire.parse_request(body)
                        version.requests += 1
                        version.priorities.append(request.priority)
                        version.rows += len(request.tensors[0])
                        delay_s = version.delay_s
                        asking[request.request_id] = self._loop.call_later(
                            delay_s, _answer, version, request, writer, asking
                        )
        finally:
            version.open.discard(writer)


def _answer(
    version: Served, request: wire.Request, writer: asyncio.StreamWriter, asking: dict[int, asyncio.TimerHandle]
) -> None:
    asking.pop(request.request_id, None)
    if version.refuse_with is not None:
        writer.write(wire.failure(wire.Failure(request.request_id, version.refuse_with, "as told", 1500)))
        return
    assert request.version_tag == wire.version_tag(version.digest)
    names = [tensor.name for tensor in version.manifest.inputs]
    with np.errstate(all="ignore"):
        outputs = version.forward(dict(zip(names, request.tensors, strict=True)))
    writer.write(wire.result(wire.Result(request.request_id, outputs, len(outputs), 10, 20, 30)))


async def _greeting(reader: asyncio.StreamReader) -> wire.FrameReader:
    """Reads the client's hello, and nothing behind it: the API waits for an answer before it goes on."""
    frames = wire.FrameReader()
    while True:
        data = await reader.read(1 << 16)
        if not data:
            raise ConnectionError
        for kind, body in frames.feed(data):
            assert kind is wire.FrameType.HELLO
            wire.agree(wire.parse_document(body))
            return frames


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"{host}:{port}"
