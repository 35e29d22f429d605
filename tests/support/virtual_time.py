"""A worker's batcher and wire server on a virtual clock, in one thread: the device's time passes by decree.

The real `Batcher.run` and `WireServer` run here; only the clock, the timers and what the device thread waits on
are the simulation's.
"""

import asyncio
import heapq
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self, cast

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batcher import Batcher
from online.inference.worker.connection import Connection
from online.inference.worker.execution import Outcome, RunBatch
from online.inference.worker.warm import Warm
from online.inference.worker.wire_server import RequestCounts, WireServer
from schemas import wire
from schemas.capacity import BatchTime
from schemas.wire import Tensor
from tests.support.gated_worker import DIGEST, gated_manifest


class Clock:
    """Virtual time with timers, as much of an event loop as a wire server needs."""

    def __init__(self) -> None:
        self.now = 1_000_000_000
        self.on_stuck: Callable[[], None] = lambda: None
        self._timers: list[tuple[int, int, _Timer]] = []
        self._order = count()

    def now_ns(self) -> int:
        return self.now

    def at(self, ns: int, call: Callable[..., object], *args: object) -> "_Timer":
        timer = _Timer(call, args)
        heapq.heappush(self._timers, (ns, next(self._order), timer))
        return timer

    def call_later(self, delay_s: float, call: Callable[..., object], *args: object) -> "_Timer":
        return self.at(self.now + round(delay_s * 1e9), call, *args)

    def pass_ns(self, ns: int, until: Callable[[], bool] = lambda: False) -> None:
        """Time goes on, timers fire in their order; it stops early once `until` holds."""
        end = self.now + ns
        while self._timers and self._timers[0][0] <= end and not until():
            at, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            timer.fire()
        if not until():
            self.now = end

    def pass_until(self, until: Callable[[], bool]) -> None:
        while not until():
            if self._timers:
                self.pass_ns(max(0, self._timers[0][0] - self.now), until)
            else:
                self.on_stuck()


class _Timer:
    def __init__(self, call: Callable[..., object], args: tuple[object, ...]) -> None:
        self._call: Callable[..., object] | None = call
        self._args = args

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        if self._call is not None:
            self._call(*self._args)


class _Condition:
    """Waiting is time that passes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_notified = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: type[BaseException] | BaseException | TracebackType | None) -> None:
        return

    def notify(self) -> None:
        self._is_notified = True

    notify_all = notify

    def wait(self, timeout: float | None = None) -> None:
        self._is_notified = False
        if timeout is None:
            self._clock.pass_until(lambda: self._is_notified)
        else:
            self._clock.pass_ns(round(timeout * 1e9), lambda: self._is_notified)


class Recorder(Connection):
    """A client: what it was sent, (time, frame type, parsed), by request id."""

    def __init__(self, server: WireServer, clock: Clock) -> None:
        super().__init__(server)
        self._clock = clock
        self.answers: dict[int, list[tuple[int, wire.Result | wire.Failure]]] = {}

    def write(self, frames: bytes) -> None:
        for kind, body in wire.FrameReader().feed(frames):
            parse = wire.parse_result if kind is wire.FrameType.RESULT else wire.parse_failure
            answer = parse(body)
            self.answers.setdefault(answer.request_id, []).append((self._clock.now, answer))


class VirtualWorker:
    """`run` lives until nothing more is scheduled. `send` and `cancel` are to be called by the clock."""

    def __init__(
        self,
        model: RunBatch,
        max_rows: int,
        max_queued_rows: int,
        time: BatchTime,
        max_delay_ms: float = 0.0,
        is_launcher: bool = False,
    ) -> None:
        """`is_launcher`: the device takes its next batch while it works, as a process of its own does."""
        self.clock = Clock()
        self._model, self._time = model, time
        self._is_launcher = is_launcher
        self.batch_rows: list[int] = []
        self.launched_ahead_ns: list[int] = []  # before the device was free, each batch of a launcher
        self.batcher = Batcher(
            1,
            BatchPolicy(max_rows, round(max_delay_ms * 1e6)),
            max_queued_rows,
            time,
            self._deliver,
            now_ns=self.clock.now_ns,
            condition=lambda: cast(threading.Condition, _Condition(self.clock)),
        )
        self.clock.on_stuck = self.batcher.stop
        warm = Warm(gated_manifest(max_rows), DIGEST, self.batcher, max_rows, [], lambda: 0, lambda _: None)
        loop = cast(asyncio.AbstractEventLoop, self.clock)
        self.counts = RequestCounts()
        self.server = _server(warm, self.counts, loop, self.clock.now_ns)
        self.client = Recorder(self.server, self.clock)
        self.server.connections.add(self.client)

    def run(self) -> None:
        self.batcher.run(_VirtualLauncher(self) if self._is_launcher else self._run_batch)

    def execute(self, tensors: list[Tensor]) -> Any:
        """What the device computes, in no time."""
        self.batch_rows.append(len(tensors[0]))
        return self._model(tensors)

    def batch_ns(self, tensors: list[Tensor]) -> int:
        return round(self._time.batch_ms(len(tensors[0])) * 1e6)

    def send(self, request_id: int, tensors: list[Tensor], priority: int = 0, deadline_ms: int = 0) -> None:
        tag = wire.version_tag(DIGEST)
        frame = wire.request(wire.Request(request_id, tag, priority, deadline_ms * 1000, tensors))
        ((_, body),) = wire.FrameReader().feed(frame)
        job = self.server.job(self.client, body)
        self.client.jobs[request_id] = job
        self.server.submit([job])

    def cancel(self, request_id: int) -> None:
        self.server.cancel(self.client, request_id)

    def _run_batch(self, tensors: list[Tensor]) -> Any:
        self.clock.pass_ns(self.batch_ns(tensors))
        return self.execute(tensors)

    def _deliver(self, outcome: Outcome) -> None:
        self.clock.at(self.clock.now, self.server.on_outcome, outcome)


class _VirtualLauncher:
    """Batches one after another, each from when the one before is done; each takes T(b)."""

    def __init__(self, worker: VirtualWorker) -> None:
        self.worker = worker
        self._free_at_ns = worker.clock.now

    def __call__(self, tensors: list[Tensor]) -> Any:
        return self.launch(tensors)()

    def launch(self, tensors: list[Tensor]) -> "_VirtualBatch":
        worker = self.worker
        worker.launched_ahead_ns.append(max(0, self._free_at_ns - worker.clock.now))
        began_ns = max(worker.clock.now, self._free_at_ns)
        self._free_at_ns = began_ns + worker.batch_ns(tensors)
        # What is read later than now would be of another batch.
        return _VirtualBatch(worker, [tensor.copy() for tensor in tensors], self._free_at_ns)


@dataclass(frozen=True)
class _VirtualBatch:
    worker: VirtualWorker
    tensors: list[Tensor]
    done_at_ns: int

    def is_back_by(self, at_ns: int) -> bool:
        clock = self.worker.clock
        clock.pass_ns(max(0, min(at_ns, self.done_at_ns) - clock.now))
        return clock.now >= self.done_at_ns

    def __call__(self) -> Any:
        clock = self.worker.clock
        clock.pass_ns(max(0, self.done_at_ns - clock.now))
        return self.worker.execute(self.tensors)


def _server(
    warm: Warm, counts: RequestCounts, loop: asyncio.AbstractEventLoop, now_ns: Callable[[], int]
) -> WireServer:
    return WireServer(warm, b"", lambda: b"", counts, loop, now_ns)
