"""What the API needs of whoever computes live: our own inference tier, or a foreign server."""

import asyncio
from types import TracebackType
from typing import Protocol, Self

from online.errors import Overloaded, ServingError
from online.wire_client.asking import Rows
from schemas import wire


class Answered(Protocol):
    """Who asked is told once, in the event loop, also before `send` has returned; it does not raise."""

    def on_result(self, result: wire.Result) -> None: ...
    def on_failure(self, error: ServingError) -> None: ...


class Sending(Protocol):
    """Rows on their way."""

    def cancel(self) -> object:
        """Withdraws them; nobody is told of it."""


class Live(Protocol):
    """Use as `async with`.

    Attributes:
        changed: set when a version became warm or ceased to be; whoever waits for it clears it.
        failovers: how often a second replica was asked because a first certainly had not done the work.
    """

    changed: asyncio.Event
    failovers: int

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def warm_replicas(self, digest: str) -> int:
        """How many could run the bundle now."""

    def refusal(self, digest: str, deadline_s: float, rows: int) -> Overloaded | None:
        """The error that `run` is certain to raise now, so that nothing is done in vain; None: not known."""

    def send(self, answered: Answered, digest: str, rows: Rows) -> Sending:
        """As `run`, for what somebody waits for, without a task where that can be.

        Args:
            answered: told by the deadline.
        """

    async def run(self, digest: str, rows: Rows) -> wire.Result:
        """Runs rows of the bundle.

        Raises:
            LiveUnavailable, Overloaded, DeadlineExceeded, ModelError.
        """
