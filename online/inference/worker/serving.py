"""A worker's life: loading, ready, draining, ended. Wires the device thread, the wire socket and the node's pipes.

Runs in the event loop. Whatever ends the worker, those who wait are answered first, and the node is told why.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any

from online import garbage
from online.inference.report import EXIT_DRAINED, State
from online.inference.worker.connection import Connection
from online.inference.worker.contract import Refused
from online.inference.worker.device_thread import EXIT_CRASHED, Device
from online.inference.worker.execution import Outcome
from online.inference.worker.options import WorkerOptions
from online.inference.worker.parent import ParentLink
from online.inference.worker.status import StatusBoard
from online.inference.worker.tracing import JobTracer
from online.inference.worker.warm import Warm
from online.inference.worker.wire_server import WireServer
from online.tracing.spans import SpanSender
from schemas.bundle import Bundle
from schemas.http import ProblemCode

log = logging.getLogger(__name__)

_STATUS_S = 1.0
# A client that has not seen the status frame may still send; it is answered until it has been quiet for so long.
_QUIET_S = 0.25
_CLOSE_S = 1.0
_RETRY_MS = 1000


class Worker:
    """One version of one model; made and run in the event loop.

    Args:
        on_orphaned: the node is gone; called at most a moment later, and must end the process.
    """

    def __init__(self, options: WorkerOptions, on_orphaned: Callable[[], None]) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._board = StatusBoard(options.device.name)
        self._link = ParentLink(self.drain, self.on_threads, on_orphaned)
        self._threads = options.threads
        self._server: WireServer | None = None
        self._listener: asyncio.Server | None = None
        self._ended: asyncio.Future[tuple[int, str]] = self._loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._spans = SpanSender(options.otlp_url, "hotset-inference") if options.otlp_url else None

    async def run(self) -> int:
        """The process's exit status."""
        with self._spans or nullcontext():
            return await self._run()

    async def _run(self) -> int:
        self._loop.set_exception_handler(self._on_loop_error)
        self._loop.add_signal_handler(signal.SIGTERM, self.drain)
        await self._link.listen()
        self._publish()
        Device(self._options, self).start()
        self._spawn(self._tick())
        status, reason = await self._ended
        await self._end(status, reason)
        return status

    def drain(self) -> None:
        """Answers what is queued, then ends. Before the version is warm there is nothing to answer."""
        if self._board.state is State.READY:
            self._board.state = State.DRAINING
            self._publish()
            self._spawn(self._drain())
        elif self._board.state is State.LOADING:
            self.on_end(EXIT_DRAINED, "")

    def on_threads(self, threads: int) -> None:
        """How many torch may use from now on; before the version is warm they are what the options say."""
        self._threads = threads
        if self._board.warm is not None:
            self._board.warm.give_threads(threads)

    def on_bundle(self, bundle: Bundle) -> None:
        self._board.manifest = bundle.manifest
        self._publish()

    def on_warm(self, warm: Warm) -> None:
        if not self._ended.done():
            self._spawn(self._open(warm))

    def on_outcome(self, outcome: Outcome) -> None:
        assert self._server is not None  # only it submits
        self._server.on_outcome(outcome)

    def on_end(self, status: int, reason: str) -> None:
        """The first reason counts."""
        if not self._ended.done():
            self._ended.set_result((status, reason))

    async def _open(self, warm: Warm) -> None:
        board, options = self._board, self._options
        board.warm = warm
        warm.give_threads(self._threads)
        tracer = (
            JobTracer(self._spans, warm.manifest.name, warm.manifest.version) if self._spans is not None else None
        )
        server = WireServer(warm, board.hello(), board.frame, board.requests, tracer=tracer)
        self._server = server
        if (path := options.unix_socket) is not None:
            self._listener = await self._loop.create_unix_server(lambda: Connection(server), str(path))
            board.address = str(path)
        else:
            self._listener = await self._loop.create_server(
                lambda: Connection(server), options.host, 0, backlog=1024
            )
            board.address = f"{options.advertise_host}:{self._listener.sockets[0].getsockname()[1]}"
        garbage.settle()
        board.state = State.READY
        fit = warm.batcher.time.fit
        log.info("ready", extra={"address": board.address, "tau0_ms": fit.tau0_ms, "alpha_ms": fit.alpha_ms})
        self._publish()

    async def _drain(self) -> None:
        assert self._server is not None
        try:
            async with asyncio.timeout(self._options.drain_s):
                await self._server.quiet(_QUIET_S)
        except TimeoutError:
            log.warning("the time to drain is up; %d requests are refused", self._server.open_jobs)
        self.on_end(EXIT_DRAINED, "")

    async def _end(self, status: int, reason: str) -> None:
        board = self._board
        board.state, board.reason = State.STOPPED if status == EXIT_DRAINED else State.FAILED, reason
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            why = f": {reason}" if reason else ""
            self._server.refuse_all(
                Refused(ProblemCode.LIVE_UNAVAILABLE, f"this version has stopped{why}", _RETRY_MS)
            )
        self._publish()
        if board.warm is not None:
            board.warm.batcher.stop()
        if self._server is not None:
            # What is still on its way here is refused like the rest.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._server.quiet(_QUIET_S)
            await self._server.close(_CLOSE_S)
        if self._options.unix_socket is not None:
            self._options.unix_socket.unlink(missing_ok=True)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_S)
            self._board.measure_load()
            self._publish()

    def _publish(self) -> None:
        self._link.tell(self._board.report())
        if self._server is not None:
            self._server.broadcast(self._board.frame())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the worker died", exc_info=error)
            self.on_end(EXIT_CRASHED, f"{type(error).__name__}: {error}")

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A call-back that raised may have left a request without answer: all are answered, the worker ends."""
        error = context.get("exception")
        log.error("event loop: %s", context.get("message"), exc_info=error)
        if error is not None and not isinstance(error, OSError):
            self.on_end(EXIT_CRASHED, f"{type(error).__name__}: {error}")
