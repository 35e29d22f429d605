"""The worker's wire socket: jobs to the batcher, its outcomes to the clients. Runs in the event loop.

A request is checked before it may share a batch, so a bad one fails alone. Deadlines are kept by a timer each, not
by the end of a batch; and every job that was taken in is answered once, whatever becomes of the device thread.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from online.inference.worker.batcher import Refusal
from online.inference.worker.connection import Connection
from online.inference.worker.contract import Contract, Refused
from online.inference.worker.execution import Outcome
from online.inference.worker.jobs import Job
from online.inference.worker.tracing import JobTracer
from online.inference.worker.warm import Warm
from online.tracing.context import TraceContext
from schemas import wire
from schemas.http import ProblemCode


@dataclass(slots=True)
class RequestCounts:
    """Requests by what became of them. Written by the event loop alone."""

    answered: int = 0
    overloaded: int = 0
    not_ready: int = 0
    deadline_exceeded: int = 0
    cancelled: int = 0
    invalid: int = 0
    failed: int = 0


class WireServer:
    """Connections of one worker and their jobs.

    Args:
        hello: this side's hello frame.
        status_frame: makes the status frame of now.
        counts: kept here, read by others.
        loop, now_ns: the timers' and the clock; a simulation brings its own.
        tracer: where traced requests leave spans.
    """

    def __init__(
        self,
        warm: Warm,
        hello: bytes,
        status_frame: Callable[[], bytes],
        counts: RequestCounts,
        loop: asyncio.AbstractEventLoop | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        tracer: JobTracer | None = None,
    ) -> None:
        self._batcher, self._max_batch_rows = warm.batcher, warm.max_batch_rows
        self._contract = Contract(warm.manifest, warm.digest)
        self._loop, self._now_ns = loop or asyncio.get_running_loop(), now_ns
        self._refusal: Refused | None = None
        self._tracer = tracer
        self._all_gone = asyncio.Event()
        self._answered_all = asyncio.Event()
        self._last_request_s = 0.0
        self.hello, self.status_frame, self.counts = hello, status_frame, counts
        self.connections: set[Connection] = set()
        self.open_jobs = 0

    def job(self, connection: Connection, body: memoryview, trace: TraceContext | None = None) -> Job:
        """Raises WireError where the frame cannot be read, Refused where the model does not take it."""
        request = wire.parse_request(body)
        self._contract.check(request)
        now_ns = self._now_ns()
        job = Job(
            connection,
            request.request_id,
            request.priority,
            request.tensors,
            now_ns,
            self._max_batch_rows,
            now_ns + request.deadline_us * 1000 if request.deadline_us else 0,
            trace,
        )
        if request.deadline_us:
            job.close = self._loop.call_later(request.deadline_us / 1e6, self._expire, job).cancel
        self.open_jobs += 1
        return job

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queues jobs of `connections`; those that cannot be are answered with a failure."""
        if not jobs:
            return
        self._last_request_s = time.monotonic()
        if self._refusal is not None:
            self.counts.not_ready += len(jobs)
            for job in jobs:
                self._fail(job, self._refusal)
            return
        for refusal in self._batcher.submit(jobs):
            self.counts.overloaded += 1
            self._fail(refusal.job, _overloaded(refusal))

    def cancel(self, connection: Connection, request_id: int) -> None:
        """Forgets the job; one that is answered already, or unknown, is none of a cancel's business."""
        if (job := connection.jobs.pop(request_id, None)) is not None:
            self.counts.cancelled += 1
            self._close(job)
            self._batcher.withdraw(job)

    def forget(self, connection: Connection) -> None:
        """The client has gone: what it asked for is not executed any more."""
        self.connections.discard(connection)
        if not self.connections:
            self._all_gone.set()
        for request_id in list(connection.jobs):
            self.cancel(connection, request_id)

    def on_outcome(self, outcome: Outcome) -> None:
        """Answers a batch, each connection in one write."""
        answers: defaultdict[Connection, list[bytes]] = defaultdict(list)
        at = 0
        for part in outcome.parts:
            job, first = part.job, at
            at += part.rows
            if not job.is_open:
                continue
            if outcome.outputs is None:
                self.counts.failed += 1
                self._batcher.withdraw(job)
                self._fail(job, Refused(ProblemCode.MODEL_ERROR, outcome.error))
            elif job.accept(part, outcome.outputs[first:at], outcome.times):
                self.counts.answered += 1
                answers[self._close(job)].append(_result_frame(job))
                if self._tracer is not None:
                    self._tracer.end(job)
        for connection, frames in answers.items():
            connection.write(b"".join(frames))
        self._batcher.stack_ahead()

    def refuse_all(self, refusal: Refused) -> None:
        """Answers every open job, and every later one, with the refusal.

        What no batch had taken is said to be not ready instead, so that its sender may try elsewhere.
        """
        self._refusal = Refused(ProblemCode.NOT_READY, refusal.message, refusal.retry_after_ms)
        for connection in self.connections:
            for job in list(connection.jobs.values()):
                self.counts.failed += 1
                self._fail(job, self._refusal if self._batcher.withdraw(job) else refusal)

    def broadcast(self, frame: bytes) -> None:
        for connection in self.connections:
            if connection.is_greeted and not connection.is_paused:
                connection.write(frame)

    async def quiet(self, quiet_s: float) -> None:
        """Returns once all jobs are answered and nobody has asked for anything for `quiet_s`."""
        while True:
            if self.open_jobs:
                self._answered_all.clear()
                await self._answered_all.wait()
            left_s = self._last_request_s + quiet_s - time.monotonic()
            if left_s <= 0 and not self.open_jobs:
                return
            await asyncio.sleep(max(0.0, left_s))

    async def close(self, timeout_s: float) -> None:
        """Ends the connections, after what is buffered for them was sent or the time is up."""
        self._all_gone.clear()
        for connection in list(self.connections):
            connection.close()
        if self.connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._all_gone.wait()
        for connection in list(self.connections):
            connection.abort()

    def _expire(self, job: Job) -> None:
        self.counts.deadline_exceeded += 1
        self._batcher.withdraw(job)
        self._fail(job, Refused(ProblemCode.DEADLINE_EXCEEDED, "the deadline passed before the answer"))

    def _fail(self, job: Job, refusal: Refused) -> None:
        self._close(job).fail(job.request_id, refusal)
        if self._tracer is not None:
            self._tracer.end(job, f"{refusal.code}: {refusal.message}")

    def _close(self, job: Job) -> Connection:
        job.finish()
        connection = job.owner
        assert isinstance(connection, Connection)
        connection.jobs.pop(job.request_id, None)
        self.open_jobs -= 1
        if not self.open_jobs:
            self._answered_all.set()
        return connection


def _overloaded(refusal: Refusal) -> Refused:
    why = "the queue is full"
    if refusal.is_late:
        why = "what is queued leaves no time for an answer by the deadline"
    return Refused(ProblemCode.OVERLOADED, why, refusal.retry_after_ms)


def _result_frame(job: Job) -> bytes:
    assert job.outputs is not None
    return wire.result(
        wire.Result(
            job.request_id,
            job.outputs,
            job.batch_rows,
            max(0, job.queue_ns) // 1000,
            job.batch_ns // 1000,
            job.execute_ns // 1000,
        )
    )
