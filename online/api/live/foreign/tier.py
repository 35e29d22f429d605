"""Servers of the Open Inference Protocol (Triton, MLServer, KServe …) in place of our own inference tier.

They batch for themselves, so rows are sent as they come. Readiness is polled, since they push nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

import aiohttp

from online.api.live.contract import Answered, Sending
from online.api.live.foreign.naming import ForeignModel
from online.api.live.foreign.server import ForeignServer, NotExecuted
from online.api.live.foreign.slots import Slots
from online.api.live.foreign.target import Target, targets
from online.api.routes.view import ModelView
from online.errors import LiveUnavailable, Overloaded, ServingError
from online.wire_client.asking import Rows
from schemas import wire

log = logging.getLogger(__name__)

_POLL_S = 1.0
_NOTHING_ROUTED_S = 0.1  # as when the API starts
_CONNECT_TIMEOUT_S = 2.0
# Shorter than servers do (uvicorn: 5 s): what was sent into a connection that closes may not be repeated.
_KEEP_IDLE_S = 2.0
_ATTEMPTS = 2


class ForeignTier:
    """Use as `async with`.

    Args:
        views: what is routed now, by model.
        concurrency: requests that a server is given at a time; others wait here until their deadline.
    """

    def __init__(
        self,
        urls: Sequence[str],
        models: Mapping[str, ForeignModel],
        concurrency: int,
        views: Callable[[], Mapping[str, ModelView]],
    ) -> None:
        self._urls, self._models, self._concurrency, self._views = urls, models, concurrency, views
        self._targets: dict[str, Target] = {}
        self._seen: tuple[ModelView, ...] = ()
        self._servers: list[ForeignServer] = []
        self._slots = Slots((), concurrency)
        self._stack = AsyncExitStack()
        self.changed = asyncio.Event()
        self.failovers = 0

    async def __aenter__(self) -> Self:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},  # answers are small, and time is dearer than bytes
        )
        await self._stack.enter_async_context(session)
        self._servers = [ForeignServer(url, session, self._on_change) for url in self._urls]
        self._slots = Slots(self._servers, self._concurrency)
        for server in self._servers:
            task = asyncio.create_task(self._keep_polling(server), name=f"foreign {server.url}")
            self._stack.push_async_callback(_end, task)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def warm_replicas(self, digest: str) -> int:
        return sum(server.is_warm(digest) for server in self._servers)

    def refusal(self, digest: str, deadline_s: float, rows: int) -> Overloaded | None:
        """Such a server does not say how busy it is."""
        return None

    def send(self, answered: Answered, digest: str, rows: Rows) -> Sending:
        return asyncio.create_task(_tell(answered, self.run(digest, rows)), name="foreign request")

    async def run(self, digest: str, rows: Rows) -> wire.Result:
        """Runs rows on the warm server with the least outstanding; see `Live.run`.

        What the server says of its queue and batches is not known: of the times, only `execute_us` is given, and
        it is that of the whole exchange. What has no priority does not stand in line: it is refused.
        """
        target = self._current().get(digest)
        if rows.priority and not self._slots.are_mostly_free(digest):
            raise Overloaded("the servers are busy")
        error: ServingError = LiveUnavailable("no server has this version ready")
        tried: list[ForeignServer] = []
        while target is not None and len(tried) < _ATTEMPTS:
            server = await self._slots.take(digest, tried, rows.deadline_s)
            if server is None:
                break
            self.failovers += bool(tried)
            tried.append(server)
            began_ns = time.monotonic_ns()
            try:
                outputs = await server.infer(target, rows.tensors, rows.deadline_s, rows.trace)
                return wire.Result(0, outputs, len(outputs), 0, 0, (time.monotonic_ns() - began_ns) // 1000)
            except NotExecuted as refused:
                error = refused.error
            finally:
                self._slots.give_back(server)
        raise error

    def _on_change(self) -> None:
        self.changed.set()
        self._slots.settle_line()

    def _current(self) -> Mapping[str, Target]:
        views = self._views()
        seen = tuple(views.values())
        if seen != self._seen:
            self._targets, self._seen = targets(views, self._models), seen
        return self._targets

    async def _keep_polling(self, server: ForeignServer) -> None:
        while True:
            try:
                await server.poll(self._current())
            except Exception:  # the task must outlive whatever a foreign server makes of its answers
                log.exception("polling a foreign server failed", extra={"url": server.url})
            await asyncio.sleep(_POLL_S if self._targets else _NOTHING_ROUTED_S)


async def _tell(answered: Answered, work: Coroutine[Any, Any, wire.Result]) -> None:
    try:
        result = await work
    except ServingError as error:
        answered.on_failure(error)
    except Exception:
        log.exception("a foreign server's answer")
        answered.on_failure(LiveUnavailable("the server's answer could not be taken"))
    else:
        answered.on_result(result)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
