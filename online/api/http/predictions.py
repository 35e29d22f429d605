"""The end points that answer predictions, as plain ASGI: on a hit, the framework's routing would cost most of it.

They are described to OpenAPI in `openapi.py`, from the same models that a test holds their parsing against.
"""

import logging
import time
from asyncio import Task, get_running_loop
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import orjson

from online.api.answering.answerer import Answerer
from online.api.answering.asking import Asking, ClientGone
from online.api.answering.outcome import Item, Outcome
from online.api.http.body import check_entity, check_media_type, parse_batch, parse_json, parse_predict
from online.api.http.documents import inputs_json, is_sampled, log_row, result, server_timing
from online.api.http.exchange import Exchange
from online.api.http.head import Kind, deadline_of, decode_entity
from online.api.http.problems import PROBLEM, InternalError, problem, retry_after
from online.api.lookup.clock import RedisClock
from online.api.routes.view import ModelView
from online.api.settings import ApiSettings
from online.errors import BodyTooLarge, MethodNotAllowed, NotReady, ServingError, UnknownModel

log = logging.getLogger(__name__)

_JSON = b"content-type: application/json"
_PROBLEM_JSON = b"content-type: " + PROBLEM.encode()
# Time left of the deadline for answering that it has passed.
_MARGIN_S = 0.01


class LogSink(Protocol):
    """Takes rows of the request log; never waits, never fails."""

    def add(self, model: str, row: tuple[object, ...]) -> None: ...

    def refuse(self, code: str) -> None:
        """Counts a request for no model that exists."""


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
        self._deadline_ms, self.max_body_bytes = settings.deadline_ms, settings.max_body_bytes
        self._sample = settings.log_sample
        self._loop = get_running_loop()

    def begin(self, exchange: Exchange) -> "Task[None]":
        return self._loop.create_task(self._serve(exchange))

    async def _serve(self, exchange: Exchange) -> None:
        try:
            view = self._view(exchange)
            patience_s = deadline_of(exchange.head, self._deadline_ms) / 1000
            deadline_s = exchange.started_s + patience_s - min(_MARGIN_S, patience_s / 10)
            asking = Asking(view, deadline_s, exchange.protocol)
            if exchange.target.kind is Kind.BATCH:
                await self._serve_batch(asking, exchange)
            else:
                await self._serve_one(asking, exchange)
        except ServingError as error:
            self._refuse(exchange, error)
        except ClientGone:
            return
        except Exception:
            log.exception("a request failed", extra={"request_id": exchange.head.request_id})
            self._refuse(exchange, InternalError("the request failed"))

    def _view(self, exchange: Exchange) -> ModelView:
        model = self._models.get(exchange.target.model)
        if model is None:
            raise UnknownModel("no such model")
        wanted = b"GET" if exchange.target.kind is Kind.GET else b"POST"
        if exchange.method != wanted:
            raise MethodNotAllowed(f"use {wanted.decode()}", allow=wanted.decode())
        if wanted == b"POST":
            check_media_type(exchange.head)
        if exchange.is_too_large:
            raise BodyTooLarge(f"a body may have {self.max_body_bytes} bytes")
        view = self._views.get(model)
        if view is None:
            raise NotReady("no version of this model is live yet")
        return view

    async def _serve_one(self, asking: Asking, asked: Exchange) -> None:
        if asked.target.kind is Kind.GET:
            entity = decode_entity(asked.target.entity)
            item = Item(entity, check_entity(entity))
        else:
            item = parse_predict(parse_json(asked.body))
        route_us = _us_since(asked.started_ns)
        outcomes = await self._answerer.answer(asking, [item])
        post_ns = time.perf_counter_ns()
        now_us = self._clock.now_us()
        document = result(outcomes[0], asking.view.document.model, asked.head.request_id, now_us // 1000)
        body = orjson.dumps(document)
        error = outcomes[0].error
        post_us = _us_since(post_ns)
        timing = b"server-timing: " + server_timing(outcomes, route_us, post_us)
        _send(asked, error.status if error else 200, body, error, timing)
        self._log(asking, asked, [item], outcomes, now_us, route_us, post_us)

    async def _serve_batch(self, asking: Asking, asked: Exchange) -> None:
        parsed = parse_batch(parse_json(asked.body))
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
        _send(asked, 200, body, None, timing)
        self._log(asking, asked, parsed, outcomes, now_us, route_us, post_us)

    def _log(
        self,
        asking: Asking,
        asked: Exchange,
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

    def _refuse(self, asked: Exchange, error: ServingError) -> None:
        """An answer to the request as a whole."""
        request_id = asked.head.request_id
        body = orjson.dumps(problem(error, request_id))
        allow = error.context.get("allow")
        extra = [b"allow: " + str(allow).encode()] if allow else []
        _send(asked, error.status, body, error, *extra)
        model = self._models.get(asked.target.model)
        if model is None:
            self._sink.refuse(error.code)
            return
        total_us = _us_since(asked.started_ns)
        view = self._views.get(model)
        outcome = Outcome(version=view.stable if view else None, error=error)
        self._sink.add(model, log_row(outcome, request_id, self._clock.now_us(), total_us, total_us, 0))


def _refused(asking: Asking, error: ServingError) -> Outcome:
    entity = error.context.get("entity")
    return Outcome(entity=entity if isinstance(entity, str) else None, version=asking.view.stable, error=error)


def _send(asked: Exchange, status: int, body: bytes, error: ServingError | None, *more: bytes) -> None:
    """`more`: header lines without their ends."""
    lines = [
        _JSON if error is None else _PROBLEM_JSON,
        b"content-length: %d" % len(body),
        b"x-request-id: " + asked.head.request_id.encode("ascii"),
        *more,
    ]
    if error is not None and (seconds := retry_after(error)) is not None:
        lines.append(b"retry-after: " + seconds)
    lines.append(b"")
    asked.answer(status, b"\r\n".join(lines), body)


def _us_since(since_ns: int) -> int:
    return (time.perf_counter_ns() - since_ns) // 1000
