"""The wire directory of one node: which versions it serves, and where their workers listen."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, cast

from schemas import wire

log = logging.getLogger(__name__)


class WorkerAddress(NamedTuple):
    """Where a worker listens (host:port, or the path of a Unix socket), and what it must serve."""

    address: str
    digest: str


class DirectoryConnection(asyncio.Protocol):
    """Made by the event loop; `on_status` gets the ready workers of each status frame."""

    def __init__(self, hello: bytes, on_status: Callable[[frozenset[WorkerAddress]], None]) -> None:
        self._hello, self._on_status = hello, on_status
        self._reader = wire.FrameReader(wire.MAX_HELLO_BYTES)
        self._transport: asyncio.Transport | None = None
        self._is_greeted = False
        self._loop = asyncio.get_running_loop()
        self.heard_s = self._loop.time()
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._loop.time()
        try:
            for kind, body in self._reader.feed(data):
                self._on_frame(kind, wire.parse_document(body))
        except wire.WireError as error:
            log.warning("a node's directory is dropped", extra={"error": str(error)})
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _on_frame(self, kind: wire.FrameType, document: dict[str, object]) -> None:
        if kind is wire.FrameType.HELLO and not self._is_greeted:
            wire.agree(document)
            self._is_greeted = True
        elif kind is wire.FrameType.STATUS and self._is_greeted:
            self._on_status(ready_workers(document))
        else:
            raise wire.WireError(f"a {kind.name} frame from a directory")


def ready_workers(status: dict[str, object]) -> frozenset[WorkerAddress]:
    """The workers that a status frame says are ready; what is not understood is left out."""
    entries = status.get("versions")
    found = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("state") == "ready":
            address, digest = entry.get("address"), entry.get("digest")
            if isinstance(address, str) and isinstance(digest, str):
                found.add(WorkerAddress(address, digest))
    return frozenset(found)
