"""A request as the answering sees it: what it is about, how long there is, and whether anyone still waits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from online.api.routes.view import ModelView
from online.tracing.context import TraceContext


class ClientGone(Exception):
    """The client closed its connection before the answer was there."""


class Connection(Protocol):
    """What a request came by. Each of `on_lost` is called when it ends; once `is_lost`, none is any more."""

    on_lost: set[Callable[[], None]]
    is_lost: bool


class Wish(NamedTuple):
    """How fresh a request wants its answers, by its `Cache-Control`.

    Attributes:
        max_age_ms: a stored value that is older is not wanted.
        is_no_cache: no stored value is.
        is_only_if_cached: only a stored value is.
    """

    max_age_ms: int | None = None
    is_no_cache: bool = False
    is_only_if_cached: bool = False


NO_WISH = Wish()


@dataclass(slots=True)
class Asking:
    """One request: its view, until when it wants an answer (event loop's clock), its connection, and its trace."""

    view: ModelView
    deadline_s: float
    connection: Connection
    wish: Wish = NO_WISH
    trace: TraceContext | None = None

    async def wait(self, done: "asyncio.Future[None]") -> None:
        """Until `done`, or the deadline, which is no error. Raises ClientGone."""
        if self.connection.is_lost:
            raise ClientGone
        timer = asyncio.get_running_loop().call_at(self.deadline_s, _end, done, None)
        on_lost = partial(_end, done, ClientGone())
        self.connection.on_lost.add(on_lost)
        try:
            await done
        finally:
            timer.cancel()
            self.connection.on_lost.discard(on_lost)


def _end(done: "asyncio.Future[None]", error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
