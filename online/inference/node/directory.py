"""The wire directory: tells each client which versions this node serves, where, and in which state.

A client says hello; then it gets a status frame at once, on each change, and each second.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from schemas import wire

log = logging.getLogger(__name__)

_HELLO_TIMEOUT_S = 10.0
# A client that does not read is cut off: it would otherwise hold a frame more each second.
_MAX_UNREAD_BYTES = 1 << 20


class Directory:
    """The connected clients. `document` makes the status of now."""

    def __init__(self, name: str, document: Callable[[], dict[str, object]]) -> None:
        self._document = document
        self.hello = wire.hello({"role": "node", "node": name})
        self.clients: set[DirectoryClient] = set()

    def frame(self) -> bytes:
        return wire.status(self._document())

    def push(self) -> None:
        if self.clients:
            frame = self.frame()
            for client in list(self.clients):
                client.push(frame)

    def close(self) -> None:
        for client in list(self.clients):
            client.close()


class DirectoryClient(asyncio.Protocol):
    """One connection; in `directory.clients` once it has said hello."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._reader = wire.FrameReader(wire.MAX_HELLO_BYTES)
        self._transport: asyncio.Transport | None = None
        self._hello_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._hello_timer = asyncio.get_running_loop().call_later(_HELLO_TIMEOUT_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._directory.clients.discard(self)
        if self._hello_timer is not None:
            self._hello_timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            for kind, body in self._reader.feed(data):
                if kind is not wire.FrameType.HELLO or self in self._directory.clients:
                    raise wire.WireError(f"a {kind.name} frame from a client of the directory")
                self._greet(body)
        except wire.WireError as error:
            log.warning("a client of the directory is disconnected: %s", error)
            self.close()

    def push(self, frame: bytes) -> None:
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self._transport.abort()
        else:
            self._transport.write(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _greet(self, body: memoryview) -> None:
        # The own hello goes out before the ranges are compared: it tells the peer what this side speaks.
        self.push(self._directory.hello)
        wire.agree(wire.parse_document(body))
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._directory.clients.add(self)
        self.push(self._directory.frame())
