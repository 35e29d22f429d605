"""One connection to a worker of the inference tier: requests out, results in any order, cancels, status.

Used by the API tier, and by the node for those who call it by its public protocol.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from schemas import wire

log = logging.getLogger(__name__)

_READY = "ready"


class ReplicaGone(Exception):
    """The connection was lost, or never became usable: another replica may do it."""


class ReplicaRefused(Exception):
    """The worker answered with a failure."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.failure = failure


@dataclass(slots=True)
class _Open:
    future: "asyncio.Future[wire.Result]"
    rows: int


class Replica(asyncio.Protocol):
    """Made by the event loop for a worker that must serve the bundle `digest`.

    Attributes:
        outstanding_rows: of requests of ours that are not answered.
        heard_s: when its last frame came, by the event loop's clock.
        was_ready: it has been usable, so that losing it is no failure to connect.
    """

    def __init__(self, digest: str, hello: bytes, on_change: Callable[[], None]) -> None:
        self.digest = digest
        self._hello, self._on_change = hello, on_change
        self._loop = asyncio.get_running_loop()
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._open: dict[int, _Open] = {}
        self._next_id = 0
        self._is_greeted = self._is_ready = False
        self.lost = asyncio.Event()
        self.outstanding_rows = 0
        self.heard_s = self._loop.time()
        self.was_ready = False

    @property
    def is_usable(self) -> bool:
        return self._is_greeted and self._is_ready and self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost.set()
        for waiting in list(self._open.values()):
            if not waiting.future.done():
                waiting.future.set_exception(ReplicaGone("the connection to the replica was lost"))
        self._on_change()

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._loop.time()
        try:
            for kind, body in self._reader.feed(data):
                self._on_frame(kind, body)
        except wire.WireError as error:
            log.warning("a replica is dropped", extra={"error": str(error)})
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def idle(self) -> None:
        """Returns when nothing is outstanding, or the connection is lost."""
        while self._open and self._transport is not None:
            await asyncio.wait([waiting.future for waiting in self._open.values()])
            await asyncio.sleep(0)  # whoever waited takes its result out

    async def run(
        self, tag: bytes, tensors: list[wire.Tensor], deadline_s: float, priority: int = 0
    ) -> wire.Result:
        """Sends rows and waits. A caller that is cancelled, or late, cancels the rows at the worker too.

        Args:
            deadline_s: by the event loop's clock.
            priority: 0 goes before 1.

        Raises:
            ReplicaGone, ReplicaRefused, TimeoutError.
        """
        if self._transport is None:
            raise ReplicaGone("the replica has gone")
        left_s = deadline_s - self._loop.time()
        if left_s <= 0:
            raise TimeoutError
        self._next_id = request_id = (self._next_id + 1) & 0xFFFFFFFF
        rows = len(tensors[0])
        waiting = _Open(self._loop.create_future(), rows)
        self._open[request_id] = waiting
        self.outstanding_rows += rows
        message = wire.Request(request_id, tag, priority, max(1, int(left_s * 1e6)), tensors)
        try:
            self._transport.write(wire.request(message))
            async with asyncio.timeout_at(deadline_s):
                return await waiting.future
        finally:
            del self._open[request_id]
            self.outstanding_rows -= rows
            if (not waiting.future.done() or waiting.future.cancelled()) and self._transport is not None:
                self._transport.write(wire.cancel(request_id))

    def _on_frame(self, kind: wire.FrameType, body: memoryview) -> None:
        if kind is wire.FrameType.RESULT:
            result = wire.parse_result(body)
            waiting = self._open.get(result.request_id)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_result(result)
        elif kind is wire.FrameType.ERROR:
            failure = wire.parse_failure(body)
            waiting = self._open.get(failure.request_id)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_exception(ReplicaRefused(failure))
        elif kind is wire.FrameType.STATUS:
            self._is_ready = wire.parse_document(body).get("state") == _READY
            self.was_ready |= self._is_ready
            self._on_change()
        elif kind is wire.FrameType.HELLO and not self._is_greeted:
            self._greet(wire.parse_document(body))
        else:
            raise wire.WireError(f"a {kind.name} frame from a worker")

    def _greet(self, peer: dict[str, object]) -> None:
        wire.agree(peer)
        if peer.get("digest") != self.digest:
            # Names may be re-used by mistake; the digest cannot.
            raise wire.WireError(
                f"the worker serves bundle {str(peer.get('digest'))[:12]}, not {self.digest[:12]}"
            )
        self._is_greeted = True
