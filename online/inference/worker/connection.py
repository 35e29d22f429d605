"""One client of a worker: its frames in, its jobs, its frames out.

A client that does not read its answers is not read from either, so what it can make this side hold is bounded.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from online.inference.worker.contract import Refused
from online.inference.worker.jobs import Job
from online.tracing.context import TraceContext
from schemas import wire
from schemas.http import ProblemCode

if TYPE_CHECKING:
    from online.inference.worker.wire_server import WireServer

log = logging.getLogger(__name__)

_HELLO_TIMEOUT_S = 10.0
_LINGER_S = 1.0


class Connection(asyncio.Protocol):
    """Made by the event loop for each client; `jobs` are those that are not answered yet, by request id."""

    def __init__(self, server: "WireServer") -> None:
        self._server = server
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._bytes_before_hello = 0
        self.is_greeted = False
        self.is_paused = False
        self.jobs: dict[int, Job] = {}
        self._trace: wire.Trace | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._abort_in(_HELLO_TIMEOUT_S)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self._server.forget(self)

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        try:
            if not self.is_greeted:
                self._bytes_before_hello += len(data)
                if self._bytes_before_hello > wire.MAX_HELLO_BYTES:
                    raise wire.WireError("no hello within its limit")
            frames = self._reader.feed(data)
            if frames and not self.is_greeted:
                self._greet(*frames.pop(0))
            self._take_in(frames)
        except wire.WireError as error:
            log.warning("a client broke the protocol and is disconnected: %s", error)
            self.close()

    def write(self, frames: bytes) -> None:
        """Does nothing once the client has gone."""
        if self._transport is not None and not self._is_closing:
            self._transport.write(frames)

    def close(self) -> None:
        """Sends what is buffered, then ends when the client does, or a moment later.

        Reading goes on meanwhile: a socket closed with bytes unread is reset, and a reset takes with it what the
        client has not read yet of its answers.
        """
        if self._transport is not None and not self._is_closing:
            self._is_closing = True
            self._transport.write_eof()
            self._abort_in(_LINGER_S)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def fail(self, request_id: int, refusal: Refused) -> None:
        self.write(wire.failure(wire.Failure(request_id, refusal.code, refusal.message, refusal.retry_after_ms)))

    def _abort_in(self, delay_s: float) -> None:
        assert self._transport is not None
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _greet(self, kind: wire.FrameType, body: memoryview) -> None:
        if kind is not wire.FrameType.HELLO:
            raise wire.WireError("the first frame is no hello")
        # The own hello goes out before the ranges are compared: it tells the peer what this side speaks.
        self.write(self._server.hello)
        wire.agree(wire.parse_document(body))
        self.is_greeted = True
        self._stop_timer()
        self.write(self._server.status_frame())

    def _take_in(self, frames: list[tuple[wire.FrameType, memoryview]]) -> None:
        """What came together is queued together, so that it can share a batch."""
        jobs: list[Job] = []
        for kind, body in frames:
            if kind is wire.FrameType.REQUEST:
                if (job := self._job(body)) is not None:
                    jobs.append(job)
            elif kind is wire.FrameType.CANCEL:
                # Queued first, so that a request and its cancel in one read do not cross.
                self._server.submit(jobs)
                jobs = []
                self._server.cancel(self, wire.parse_id(body))
            elif kind is wire.FrameType.TRACE:
                self._trace = wire.parse_trace(body)
            else:
                raise wire.WireError(f"a {kind.name} frame from a client")
        self._server.submit(jobs)

    def _trace_of(self, request_id: int) -> TraceContext | None:
        """What the frame before this request's said of it."""
        told, self._trace = self._trace, None
        if told is None or told.request_id != request_id:
            return None
        return TraceContext(told.trace_id, told.span_id, True)

    def _job(self, body: memoryview) -> Job | None:
        """The job of a request frame, or None where it was refused."""
        request_id = wire.parse_id(body)
        if request_id in self.jobs:
            raise wire.WireError(f"request id {request_id} is used twice at a time")
        try:
            job = self._server.job(self, body, self._trace_of(request_id))
        except wire.WireError as error:
            self._server.counts.invalid += 1
            self.fail(request_id, Refused(ProblemCode.INVALID_REQUEST, str(error)))
            return None
        except Refused as refusal:
            self._server.counts.invalid += 1
            self.fail(request_id, refusal)
            return None
        self.jobs[request_id] = job
        return job
