"""One connection to a worker of the inference tier: requests out, results in any order, cancels, status.

Used by the API tier, and by the node for those who call it by its public protocol.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from online.wire_client.asking import Awaited, ReplicaGone, ReplicaRefused, Rows, Sent, Sink
from online.wire_client.breaker import Breaker
from schemas import wire
from schemas.http import ProblemCode

log = logging.getLogger(__name__)

_READY = "ready"


class Replica(asyncio.Protocol):
    """Made by the event loop for a worker that must serve the bundle `digest`.

    Attributes:
        outstanding_rows: of requests of ours that are not answered.
        breaker: opens when requests get no answer at all.
        heard_s: when its last frame came, by the event loop's clock.
        was_ready: it has been usable, so that losing it is no failure to connect.
    """

    def __init__(self, digest: str, hello: bytes, on_change: Callable[[], None]) -> None:
        self.digest = digest
        self._hello, self._on_change = hello, on_change
        self._loop = asyncio.get_running_loop()
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._open: dict[int, Sent] = {}
        self._has_none_open = asyncio.Event()
        self._next_id = 0
        self._held: list[bytes] = []
        self._is_holding = False
        self._is_greeted = self._is_ready = False
        self._takes_traces = False
        self.lost = asyncio.Event()
        self.outstanding_rows = 0
        self.breaker = Breaker()
        self._others_rows = 0
        self._needed_s = self._needed_at_s = 0.0
        self._refused_rows = 0
        self.heard_s = self._loop.time()
        self._answered_s = 0.0
        self.was_ready = False

    @property
    def is_usable(self) -> bool:
        return self._is_greeted and self._is_ready and self._transport is not None

    @property
    def load_rows(self) -> int:
        """Rows before one that is sent now: ours, and those of others as of the last status frame."""
        return self.outstanding_rows + self._others_rows

    def busy_for_s(self, left_s: float, rows: int) -> float:
        """For how long it would refuse `rows` that have `left_s`, as far as its last refusal tells; else 0.

        A worker that refuses says how much sooner it would have to answer; its queue grows shorter as time passes.
        It tells nothing of fewer rows than it has refused: those may find room.
        """
        if not self._needed_s or rows < self._refused_rows:
            return 0.0
        still_s = self._needed_s - (self._loop.time() - self._needed_at_s)
        if still_s <= 0:
            self._needed_s = 0.0
        return max(0.0, still_s - left_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.lost.set()
        self._has_none_open.set()
        for sent in list(self._open.values()):
            self._take_out(sent)
            self.breaker.failed(self._loop.time())
            sent.sink.on_failure(ReplicaGone("the connection to the replica was lost", True))
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
            self._has_none_open.clear()
            await self._has_none_open.wait()

    async def run(self, rows: Rows) -> wire.Result:
        """As `send`, and waits. A caller that is cancelled cancels the rows at the worker too.

        Raises:
            ReplicaGone, ReplicaRefused, TimeoutError.
        """
        awaited = Awaited(self._loop.create_future())
        sent = self.send(awaited, rows)
        try:
            return await awaited.future
        finally:
            self.cancel(sent)

    def send(self, sink: Sink, rows: Rows) -> Sent:
        """Sends rows, which at the deadline are cancelled. Whether the breaker allows it is for the caller to ask.

        Args:
            sink: told after this has returned, of a TimeoutError at the deadline.

        Raises:
            ReplicaGone, TimeoutError: nothing was sent.
        """
        if self._transport is None:
            raise ReplicaGone("the replica has gone")
        sent_s = self._loop.time()
        left_s = rows.deadline_s - sent_s
        if left_s <= 0:
            raise TimeoutError
        self._next_id = request_id = (self._next_id + 1) & 0xFFFFFFFF
        frames = wire.request(
            wire.Request(request_id, rows.tag, rows.priority, max(1, int(left_s * 1e6)), rows.tensors)
        )
        if (trace := rows.trace) is not None and self._takes_traces:
            frames = wire.trace(wire.Trace(request_id, trace.trace_id, trace.span_id)) + frames
        self._write(frames)
        timer = self._loop.call_at(rows.deadline_s, self._expire, request_id)
        self._open[request_id] = sent = Sent(request_id, rows, sent_s, sink, timer)
        self.outstanding_rows += rows.row_count
        self.breaker.sent()
        return sent

    def cancel(self, sent: Sent) -> None:
        """Its sink is told nothing any more. Does nothing where it has been told."""
        if self._open.get(sent.request_id) is sent:
            self._give_up(sent)

    def _expire(self, request_id: int) -> None:
        if (sent := self._open.get(request_id)) is not None:
            self._give_up(sent)
            sent.sink.on_failure(TimeoutError())

    def _give_up(self, sent: Sent) -> None:
        self._take_out(sent)
        # Cancelled at the deadline: by the caller's own timer. Who answers others meanwhile is only slow.
        now_s = self._loop.time()
        if now_s >= sent.rows.deadline_s and self._answered_s < sent.sent_s:
            self.breaker.failed(now_s)
        else:
            self.breaker.abandoned()
        if self._transport is not None:
            self._write(wire.cancel(sent.request_id))

    def _take_out(self, sent: Sent) -> None:
        sent.timer.cancel()
        del self._open[sent.request_id]
        self.outstanding_rows -= sent.rows.row_count
        if not self._open:
            self._has_none_open.set()

    def _write(self, frame: bytes) -> None:
        """The first frame of a turn of the event loop goes out at once, what follows in one write at its end: each
        write is a system call, and a wake-up there.
        """
        if self._is_holding:
            self._held.append(frame)
        elif self._transport is not None:
            self._is_holding = True
            self._loop.call_soon(self._flush)
            self._transport.write(frame)

    def _flush(self) -> None:
        held, self._held, self._is_holding = self._held, [], False
        if held and self._transport is not None:
            self._transport.write(b"".join(held))

    def _on_frame(self, kind: wire.FrameType, body: memoryview) -> None:
        if kind is wire.FrameType.RESULT:
            result = wire.parse_result(body)
            if (sent := self._answered(result.request_id)) is not None:
                sent.sink.on_result(result)
        elif kind is wire.FrameType.ERROR:
            failure = wire.parse_failure(body)
            if (sent := self._answered(failure.request_id)) is not None:
                # A refusal of what goes last says nothing of what goes before it.
                if failure.code == ProblemCode.OVERLOADED and sent.rows.priority == 0:
                    self._needed_s = sent.rows.deadline_s - sent.sent_s + failure.retry_after_ms / 1e3
                    self._needed_at_s, self._refused_rows = self._loop.time(), sent.rows.row_count
                sent.sink.on_failure(ReplicaRefused(failure))
        elif kind is wire.FrameType.STATUS:
            document = wire.parse_document(body)
            self._is_ready = document.get("state") == _READY
            reported = [document.get(name) for name in ("queued_rows", "executing_rows")]
            total = sum(rows for rows in reported if isinstance(rows, int))
            self._others_rows = max(0, total - self.outstanding_rows)
            self.was_ready |= self._is_ready
            self._on_change()
        elif kind is wire.FrameType.HELLO and not self._is_greeted:
            self._greet(wire.parse_document(body))
        else:
            raise wire.WireError(f"a {kind.name} frame from a worker")

    def _answered(self, request_id: int) -> Sent | None:
        """Whom an answer is for; None where nobody waits for it any more, or ever did."""
        sent = self._open.get(request_id)
        if sent is not None:
            self._take_out(sent)
            self._answered_s = self.heard_s
            self.breaker.succeeded()
        return sent

    def _greet(self, peer: dict[str, object]) -> None:
        self._takes_traces = wire.agree(peer) >= wire.TRACES_FROM
        if peer.get("digest") != self.digest:
            # Names may be re-used by mistake; the digest cannot.
            raise wire.WireError(
                f"the worker serves bundle {str(peer.get('digest'))[:12]}, not {self.digest[:12]}"
            )
        self._is_greeted = True
