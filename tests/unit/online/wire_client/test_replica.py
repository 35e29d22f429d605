"""A connection to a worker, against a server that says what the test wants: answers, silence, and nonsense."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from online.tracing.context import TraceContext
from online.wire_client.asking import ReplicaGone, ReplicaRefused, Rows
from online.wire_client.dialling import dial
from online.wire_client.replica import Replica
from schemas import wire
from schemas.http import ProblemCode
from schemas.wire import Float32Array

DIGEST = "0a1b2c3d" * 8
ROWS = [np.ones((1, 1), np.float32)]
OUTPUTS: Float32Array = np.full((1, 1), 7.0, np.float32)


class Worker(asyncio.Protocol):
    """Says hello and that it is ready; `requests` are those it got, `answer` sends what the test makes."""

    def __init__(self, versions: tuple[int, int]) -> None:
        self._versions = versions
        self.traces: list[wire.Trace] = []
        self.requests: list[wire.Request] = []
        self.cancels: list[int] = []
        self.reads = 0
        self.came = asyncio.Event()
        self._frames = wire.FrameReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send(wire.hello({"digest": DIGEST}, self._versions), self.status())

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        for kind, body in self._frames.feed(data):
            if kind is wire.FrameType.REQUEST:
                self.requests.append(wire.parse_request(body))
            elif kind is wire.FrameType.TRACE:
                self.traces.append(wire.parse_trace(body))
            elif kind is wire.FrameType.CANCEL:
                self.cancels.append(wire.parse_id(body))
        self.came.set()

    def send(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    def status(self, **more: object) -> bytes:
        return wire.status({"state": "ready", "queued_rows": 0, "executing_rows": 0, **more})

    def answer(self, request_id: int) -> None:
        self.send(wire.result(wire.Result(request_id, OUTPUTS, 1, 0, 0, 0)))

    def refuse(self, request_id: int, code: str, retry_after_ms: int = 0) -> None:
        self.send(wire.failure(wire.Failure(request_id, code, "as told", retry_after_ms)))

    async def asked(self, requests: int) -> None:
        async with asyncio.timeout(5):
            while len(self.requests) < requests:
                self.came.clear()
                await self.came.wait()


@asynccontextmanager
async def connected(versions: tuple[int, int] = wire.WIRE_VERSIONS) -> AsyncIterator[tuple[Replica, Worker]]:
    loop, worker, changed = asyncio.get_running_loop(), Worker(versions), asyncio.Event()
    server = await loop.create_server(lambda: worker, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    replica = await dial(f"{host}:{port}", lambda: Replica(DIGEST, wire.hello({"role": "test"}), changed.set))
    async with asyncio.timeout(5):
        while not replica.is_usable:
            changed.clear()
            await changed.wait()
    try:
        yield replica, worker
    finally:
        replica.abort()
        server.close()


def ask(replica: Replica, deadline_s: float = 5.0) -> "asyncio.Task[wire.Result]":
    loop = asyncio.get_running_loop()
    return loop.create_task(replica.run(Rows(wire.version_tag(DIGEST), ROWS, loop.time() + deadline_s)))


async def test_answers_nobody_waits_for_are_nothing_to_anybody_else() -> None:
    """Unknown ids, ids of requests given up, and an answer that comes twice."""
    async with connected() as (replica, worker):
        first = ask(replica)
        await worker.asked(1)
        worker.answer(999_999)
        worker.refuse(888_888, "overloaded")
        with pytest.raises(TimeoutError):
            await ask(replica, 0.05)
        worker.answer(worker.requests[1].request_id)  # late
        for _ in range(2):
            worker.answer(worker.requests[0].request_id)
        assert (await first).outputs.tolist() == [[7.0]]
        third = ask(replica)
        await worker.asked(3)
        worker.answer(worker.requests[2].request_id)
        await third
        assert (replica.is_usable, replica.outstanding_rows) == (True, 0)
        assert worker.cancels == [worker.requests[1].request_id]


async def test_what_was_sent_may_have_been_executed_and_what_was_not_has_not() -> None:
    async with connected() as (replica, worker):
        sent = ask(replica)
        await worker.asked(1)
        worker.transport.abort()
        with pytest.raises(ReplicaGone) as lost:
            await sent
        with pytest.raises(ReplicaGone) as never_sent:
            await ask(replica)
    assert (lost.value.may_have_executed, never_sent.value.may_have_executed) == (True, False)


async def test_others_work_counts_as_of_the_last_status_frame() -> None:
    async with connected() as (replica, worker):
        mine = ask(replica)
        await worker.asked(1)
        assert replica.load_rows == 1
        worker.send(worker.status(queued_rows=30, executing_rows=11))
        worker.answer(worker.requests[0].request_id)
        await mine
        assert replica.load_rows == 40  # 41 at the worker, of which one was ours


async def test_requests_of_one_turn_take_two_writes_at_most() -> None:
    async with connected() as (replica, worker):
        asked = [ask(replica) for _ in range(50)]
        reads = worker.reads
        await worker.asked(50)
        assert worker.reads - reads <= 2
        for request in worker.requests:
            worker.answer(request.request_id)
        assert len(await asyncio.gather(*asked)) == 50


async def test_a_refusal_tells_for_how_long_the_like_of_it_would_be_refused() -> None:
    async with connected() as (replica, worker):
        assert replica.busy_for_s(0.001, 1) == 0.0
        asked = ask(replica, 0.2)
        await worker.asked(1)
        worker.refuse(worker.requests[0].request_id, ProblemCode.OVERLOADED, 150)  # it would have needed 350 ms
        with pytest.raises(ReplicaRefused):
            await asked
        assert 0.1 < replica.busy_for_s(0.2, 1) <= 0.15
        assert replica.busy_for_s(0.5, 1) == 0.0
        await asyncio.sleep(0.16)
        assert replica.busy_for_s(0.2, 1) == 0.0


async def test_a_refusal_of_many_rows_says_nothing_of_few() -> None:
    async with connected() as (replica, worker):
        loop = asyncio.get_running_loop()
        many = [np.ones((500, 1), np.float32)]
        asked = loop.create_task(replica.run(Rows(wire.version_tag(DIGEST), many, loop.time() + 0.2)))
        await worker.asked(1)
        worker.refuse(worker.requests[0].request_id, ProblemCode.OVERLOADED, 5_000)
        with pytest.raises(ReplicaRefused):
            await asked
        assert replica.busy_for_s(0.2, 500) > 4.0
        assert replica.busy_for_s(0.2, 499) == 0.0


async def test_who_lets_five_moments_pass_without_an_answer_is_left_alone_for_a_while() -> None:
    async with connected() as (replica, worker):
        loop = asyncio.get_running_loop()
        for _ in range(5):
            assert replica.breaker.allows(loop.time())
            with pytest.raises(TimeoutError):
                await ask(replica, 0.06)
        assert not replica.breaker.allows(loop.time())
        await asyncio.sleep(0.3)
        assert replica.breaker.allows(loop.time())
        trial = ask(replica)
        await worker.asked(6)
        assert not replica.breaker.allows(loop.time()), "one at a time is tried"
        worker.answer(worker.requests[5].request_id)
        await trial
        assert replica.breaker.allows(loop.time())


async def test_time_outs_of_one_moment_or_beside_answers_open_nothing() -> None:
    async with connected() as (replica, worker):
        loop = asyncio.get_running_loop()
        late = [ask(replica, 0.1) for _ in range(20)]
        assert all(isinstance(end, TimeoutError) for end in await asyncio.gather(*late, return_exceptions=True))
        assert replica.breaker.allows(loop.time())
        for turn in range(6):
            slow = ask(replica, 0.08)
            quick = ask(replica)
            await worker.asked(22 + 2 * turn)
            worker.answer(worker.requests[21 + 2 * turn].request_id)
            await quick
            with pytest.raises(TimeoutError):
                await slow
        assert replica.breaker.allows(loop.time())


@pytest.mark.parametrize(("versions", "is_told"), [((1, 2), True), ((1, 1), False)])
async def test_a_trace_goes_before_its_request_to_workers_that_take_it(
    versions: tuple[int, int], is_told: bool
) -> None:
    """One of the first version would take the frame for a broken protocol."""
    context = TraceContext(bytes(range(16)), bytes(range(8)), True)
    async with connected(versions) as (replica, worker):
        deadline_s = asyncio.get_running_loop().time() + 5
        for trace in (None, context):
            asked = asyncio.create_task(replica.run(Rows(b"tag0", ROWS, deadline_s, trace=trace)))
            await worker.asked(len(worker.requests) + 1)
            worker.answer(worker.requests[-1].request_id)
            await asked
        request_id = worker.requests[-1].request_id
        wanted = [wire.Trace(request_id, context.trace_id, context.span_id)] if is_told else []
        assert worker.traces == wanted
