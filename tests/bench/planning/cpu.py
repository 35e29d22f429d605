"""A real model on the CPU, which is a process of its own: pinned to a core, everything else on the others."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import orjson
import psutil

from tests.bench.live.asking import Server
from tests.bench.live.measure import Run
from tests.bench.live.rows import heavy_rows
from tests.bench.live.stack import Stack
from tests.bench.load.answer import NotAnAnswer, parse
from tests.bench.load.client import offer
from tests.bench.load.files import Order
from tests.bench.load.generator import Target
from tests.bench.load.summary import late_p99_ms

_PATIENCE_S = 10.0


class HeavyAsking:
    """Requests for the heavy model. Answers count as good by their status; bench-live checks their values."""

    def requests(self, stack: Stack, count: int) -> Sequence[bytes]:
        bodies = [_request(stack.server, row.tolist(), number) for number, row in enumerate(heavy_rows())]
        return [bodies[place % len(bodies)] for place in range(count)]

    def run(self, stack: Stack, due_s: np.ndarray, most_per_s: float) -> Run:
        connections = max(1, round(min(1024, most_per_s)))
        target = Target(stack.server.host, stack.server.port, connections)
        report = offer(Order(target, due_s, self.requests(stack, len(due_s)), _PATIENCE_S))
        status = np.array([_status(answer) for answer in report.answers], dtype=np.int64)
        latency_ms = 1e3 * (report.done_s - due_s)
        late_ms = late_p99_ms(due_s, report.sent_s)
        return Run(due_s, latency_ms, status, [""] * len(due_s), 0, late_ms, report.cpu_share)


def _request(server: Server, row: list[float], number: int) -> bytes:
    body = orjson.dumps(
        {"entity": f"h{number}", "features": {f"x{place}": value for place, value in enumerate(row)}}
    )
    head = f"POST {server.path} HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _status(answer: bytes) -> int:
    try:
        return parse(answer).status if answer else 0
    except NotAnAnswer:
        return 0


def is_pinnable() -> bool:
    """With one core there is nothing to keep apart."""
    return len(os.sched_getaffinity(0)) > 1


@contextmanager
def pinned(stack: Stack) -> Iterator[None]:
    """Where it can be."""
    if not is_pinnable():
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    models = {child.pid for worker in stack.node.worker_pids for child in psutil.Process(worker).children()}
    try:
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            _pin(process.pid, cores[:1] if process.pid in models else cores[1:])
        yield
    finally:
        _pin(os.getpid(), cores)


def _pin(pid: int, cores: list[int]) -> None:
    """All threads that it has; those and processes that it starts later inherit it."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
