"""The end points that answer predictions, as plain ASGI: on a hit, the framework's routing would cost most of it.

They are described to OpenAPI in `openapi.py`, from the same models that a test holds their parsing against.
"""

import logging
import time
from asyncio import get_running_loop
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from online.api.answering.answerer import Answerer
from online.api.answering.asking import Asking, ClientGone
from online.api.answering.asking import Connection as Waited
from online.api.answering.outcome import Item, Outcome
from online.api.http.body import (
    Receive,
    check_entity,
    check_media_type,
    parse_batch,
    parse_json,
    parse_predict,
    read_body,
)
from online.api.http.documents import inputs_json, is_sampled, log_row, result, server_timing
from online.api.http.head import Head, Kind, Target, deadline_of, decode_entity, read_head
from online.api.http.one_write import CONNECTION
from online.api.http.problems import PROBLEM, InternalError, problem, retry_after
from online.api.lookup.clock import RedisClock
from online.api.routes.view import ModelView
from online.api.settings import ApiSettings
from online.errors import MethodNotAllowed, NotReady, ServingError, UnknownModel

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]

_JSON = b"content-type: application/json"
_PROBLEM_JSON = b"content-type: " + PROBLEM.encode()
# Time left of the deadline for answering that it has passed.
_MARGIN_S = 0.01


class Connection(Waited, Protocol):
    """What a request came by, and is answered by."""

    async def answer(self, status: int, head: bytes, body: bytes) -> None:
        """`head`: header lines, each with its end."""


class LogSink(Protocol):
    """Takes rows of the request log; never waits, never fails."""

    def add(self, model: str, row: tuple[object, ...]) -> None: ...

    def refuse(self, code: str) -> None:
        """Counts a request for no model that exists."""


class _Asked(NamedTuple):
    """One request on its way. Times by `time.perf_counter_ns`."""

    started_ns: int
    head: Head
    model: str | None
    connection: Connection


class Predictions:
    """`views` are the follower's, by model; `sample_record` gives features of a sampled hit, without waiting."""

    def __init__(
        self,
        settings: ApiSettings,
        views: dict[str, ModelView],
        answerer: Answerer,
        clock: RedisClock,
        sink: LogSink,
        sample_record: Callable[[ModelView, bytes], Any],
    ) -> None:
        self._models = {model.encode(): model for model in settings.models}
        self._views, self._answerer, self._clock, self._sink = views, answerer, clock, sink
        self._sample_record = sample_record
        self._deadline_ms, self._max_body = settings.deadline_ms, settings.max_body_bytes
        self._sample = settings.log_sample
        self._loop = get_running_loop()

    async def serve(self, target: Target, scope: Scope, receive: Receive) -> None:
        started_s, started_ns = self._loop.time(), time.perf_counter_ns()
        head = read_head(scope["headers"])
        asked = _Asked(started_ns, head, self._models.get(target.model), scope[CONNECTION])
        try:
            view = self._view(target, asked, scope["method"])
            deadline_s = started_s + deadline_of(head, self._deadline_ms) / 1000
            asking = Asking(view, deadline_s - min(_MARGIN_S, (deadline_s - started_s) / 10), asked.connection)
            if target.kind is Kind.BATCH:
                await self._serve_batch(asking, asked, receive)
            else:
                await self._serve_one(asking, asked, target, receive)
        except ServingError as error:
            await self._refuse(asked, error)
        except ClientGone:
            return
        except Exception:
            log.exception("a request failed", extra={"request_id": head.request_id})
            await self._refuse(asked, InternalError("the request failed"))

    def _view(self, target: Target, asked: _Asked, method: str) -> ModelView:
        if asked.model is None:
            raise UnknownModel("no such model")
        wanted = "GET" if target.kind is Kind.GET else "POST"
        if method != wanted:
            raise MethodNotAllowed(f"use {wanted}", allow=wanted)
        if wanted == "POST":
            check_media_type(asked.head)
        view = self._views.get(asked.model)
        if view is None:
            raise NotReady("no version of this model is live yet")
        return view

    async def _serve_one(self, asking: Asking, asked: _Asked, target: Target, receive: Receive) -> None:
        if target.kind is Kind.GET:
            entity = decode_entity(target.entity)
            item = Item(entity, check_entity(entity))
        else:
            item = parse_predict(parse_json(await read_body(receive, asked.head, self._max_body)))
        route_us = _us_since(asked.started_ns)
        outcomes = await self._answerer.answer(asking, [item])
        post_ns = time.perf_counter_ns()
        now_us = self._clock.now_us()
        document = result(outcomes[0], asking.view.document.model, asked.head.request_id, now_us // 1000)
        body = orjson.dumps(document)
        error = outcomes[0].error
        post_us = _us_since(post_ns)
        timing = b"server-timing: " + server_timing(outcomes, route_us, post_us)
        await _send(asked.connection, error.status if error else 200, body, asked.head.request_id, error, timing)
        self._log(asking, asked, [item], outcomes, now_us, route_us, post_us)

    async def _serve_batch(self, asking: Asking, asked: _Asked, receive: Receive) -> None:
        parsed = parse_batch(parse_json(await read_body(receive, asked.head, self._max_body)))
        route_us = _us_since(asked.started_ns)
        items = [item for item in parsed if isinstance(item, Item)]
        answered = iter(await self._answerer.answer(asking, items)) if items else iter(())
        outcomes = [next(answered) if isinstance(item, Item) else _refused(asking, item) for item in parsed]
        post_ns = time.perf_counter_ns()
        now_us = self._clock.now_us()
        model, request_id = asking.view.document.model, asked.head.request_id
        results = [result(outcome, model, request_id, now_us // 1000) for outcome in outcomes]
        body = orjson.dumps({"results": results})
        post_us = _us_since(post_ns)
        timing = b"server-timing: " + server_timing(outcomes, route_us, post_us)
        await _send(asked.connection, 200, body, request_id, None, timing)
        self._log(asking, asked, parsed, outcomes, now_us, route_us, post_us)

    def _log(
        self,
        asking: Asking,
        asked: _Asked,
        items: Sequence[Item | ServingError],
        outcomes: Sequence[Outcome],
        now_us: int,
        route_us: int,
        post_us: int,
    ) -> None:
        model, request_id = asking.view.document.model, asked.head.request_id
        total_us = _us_since(asked.started_ns)
        for item, outcome in zip(items, outcomes, strict=True):
            row = log_row(outcome, request_id, now_us, total_us, route_us, post_us)
            if outcome.outputs is not None and is_sampled(request_id, outcome.entity, self._sample):
                record = outcome.record
                if record is None and isinstance(item, Item):
                    record = self._sample_record(asking.view, item.raw)
                row = (*row[:-2], inputs_json(record), outcome.outputs.tolist())
            self._sink.add(model, row)

    async def _refuse(self, asked: _Asked, error: ServingError) -> None:
        """An answer to the request as a whole."""
        request_id = asked.head.request_id
        body = orjson.dumps(problem(error, request_id))
        allow = error.context.get("allow")
        extra = [b"allow: " + str(allow).encode()] if allow else []
        await _send(asked.connection, error.status, body, request_id, error, *extra)
        if asked.model is None:
            self._sink.refuse(error.code)
            return
        total_us = _us_since(asked.started_ns)
        view = self._views.get(asked.model)
        outcome = Outcome(version=view.stable if view else None, error=error)
        self._sink.add(asked.model, log_row(outcome, request_id, self._clock.now_us(), total_us, total_us, 0))


def _refused(asking: Asking, error: ServingError) -> Outcome:
    entity = error.context.get("entity")
    return Outcome(entity=entity if isinstance(entity, str) else None, version=asking.view.stable, error=error)


async def _send(
    connection: Connection, status: int, body: bytes, request_id: str, error: ServingError | None, *more: bytes
) -> None:
    """`more`: header lines without their ends."""
    lines = [
        _JSON if error is None else _PROBLEM_JSON,
        b"content-length: %d" % len(body),
        b"x-request-id: " + request_id.encode("ascii"),
        *more,
    ]
    if error is not None and (seconds := retry_after(error)) is not None:
        lines.append(b"retry-after: " + seconds)
    lines.append(b"")
    await connection.answer(status, b"\r\n".join(lines), body)


def _us_since(since_ns: int) -> int:
    return (time.perf_counter_ns() - since_ns) // 1000
