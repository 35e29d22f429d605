"""What is asked of a worker, and what becomes of it."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from online.tracing.context import TraceContext
from schemas import wire


class Rows(NamedTuple):
    """Rows of one version, to be computed.

    Attributes:
        tag: the version's, as `wire.version_tag` makes it of the bundle's digest.
        tensors: (rows, width) each, in the manifest's order of inputs.
        deadline_s: by the event loop's clock.
        priority: 0 for what somebody waits for; `wire.LOWEST_PRIORITY` goes after it, and never in its way.
        trace: what the spans of whoever computes them are part of, where it takes that.
    """

    tag: bytes
    tensors: list[wire.Tensor]
    deadline_s: float
    priority: int = 0
    trace: TraceContext | None = None

    @property
    def row_count(self) -> int:
        return len(self.tensors[0])


class ReplicaGone(Exception):
    """The connection was lost, or never became usable. `may_have_executed`: the rows had been sent before."""

    def __init__(self, message: str, may_have_executed: bool = False) -> None:
        super().__init__(message)
        self.may_have_executed = may_have_executed


class ReplicaRefused(Exception):
    """The worker answered with a failure."""

    def __init__(self, failure: wire.Failure) -> None:
        super().__init__(f"{failure.code}: {failure.message}")
        self.failure = failure


class Sink(Protocol):
    """Who asked is told once, in the event loop, what became of the rows; it does not raise."""

    def on_result(self, result: wire.Result) -> None: ...
    def on_failure(self, error: ReplicaGone | ReplicaRefused | TimeoutError) -> None: ...


@dataclass(slots=True, eq=False)
class Sent:
    """Rows at a replica. `timer` ends them at their deadline."""

    request_id: int
    rows: Rows
    sent_s: float
    sink: Sink
    timer: asyncio.TimerHandle


class Awaited:
    """A `Sink` for a coroutine."""

    def __init__(self, future: "asyncio.Future[wire.Result]") -> None:
        self.future = future

    def on_result(self, result: wire.Result) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def on_failure(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
