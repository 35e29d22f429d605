"""The end points that answer predictions. `protocol.py` hands their requests over, outside the framework.

They are described to OpenAPI in `openapi.py`, from the same models that a test holds their parsing against.
"""

import logging
import time
from asyncio import get_running_loop
from collections.abc import Coroutine
from typing import Any

import orjson

from online.api.answering.answerer import Answerer
from online.api.answering.asking import NO_WISH, Asking, ClientGone
from online.api.answering.l1 import L1
from online.api.answering.miss import Miss
from online.api.answering.outcome import Item, Outcome
from online.api.answering.stored import Stored
from online.api.http.arrivals import Arrivals
from online.api.http.batch_hits import BatchHits
from online.api.http.batches import Batches
from online.api.http.body import check_entity, check_media_type, parse_json, parse_predict
from online.api.http.conditional import conditional, wish_of
from online.api.http.documents import log_row
from online.api.http.exchange import Exchange
from online.api.http.head import READ_HEADERS, TRACED_HEADERS, Kind, deadline_of, decode_entity
from online.api.http.hits import Hit, Hits
from online.api.http.known_heads import KnownHeads
from online.api.http.lanes import Lanes
from online.api.http.problems import InternalError, problem
from online.api.http.sending import outcome_lines, send, us_since
from online.api.http.sink import LogSink
from online.api.http.steps import Steps
from online.api.http.teller import Teller
from online.api.lookup.clock import RedisClock
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.requestlog.samples import Samples
from online.api.routes.view import ModelView
from online.api.settings import ApiSettings
from online.api.tracing import AnswerTracer
from online.errors import BodyTooLarge, MethodNotAllowed, NotReady, ServingError, UnknownModel

log = logging.getLogger(__name__)

# Time left of the deadline for answering that it has passed.
_MARGIN_S = 0.01


class Predictions:
    """`views` are the follower's, by model."""

    def __init__(
        self,
        settings: ApiSettings,
        views: dict[str, ModelView],
        stored: Stored,
        answerer: Answerer,
        l1: L1,
        clock: RedisClock,
        sink: LogSink | None,
        link: RedisLink,
        invalidations: Invalidations,
        samples: Samples,
        tracer: AnswerTracer | None = None,
    ) -> None:
        self._models = {model.encode(): model for model in settings.models}
        self._views, self._answerer, self._clock, self._sink = views, answerer, clock, sink
        self._stored, self._tracer = stored, tracer
        self.read_headers = READ_HEADERS if tracer is None else TRACED_HEADERS
        self.known_heads, self.arrivals = KnownHeads(), Arrivals(get_running_loop())
        self._deadline_ms, self.max_body_bytes = settings.deadline_ms, settings.max_body_bytes
        self._loop = get_running_loop()
        lanes = Lanes(views)
        self._teller = Teller(l1, sink, samples, tracer)
        self._batches = Batches(answerer, BatchHits(lanes, link, l1, invalidations), self._teller, clock)
        self._answers = Steps["_One"](
            *(self._tell, self._send, self._log), failed=lambda one, error: self._fail(one.asked, error)
        )
        self._hits = Hits(
            *(lanes, link, l1, clock, invalidations, sink),
            tracer,
            self._go_on,
        )

    def begin(self, exchange: Exchange) -> None:
        """A hit is answered in call-backs; what has to wait for more than a look-up gets a task."""
        if self._tracer is not None:
            exchange.trace = self._tracer.begin(exchange.head.traceparent)
        try:
            model = self._models.get(exchange.target.model)
            if model is not None and self._hits.take_plain(exchange, model):
                return
            asking = self._asking(exchange)
            if exchange.target.kind is Kind.BATCH:
                self._spawn(exchange, self._batches.serve(asking, exchange))
                return
            item = _item(exchange)
            is_usual = item.record is None and asking.wish is NO_WISH
            is_unconditional = is_usual and exchange.head.if_none_match is None
            checked = (asking, item)
            if is_unconditional and self._hits.take(exchange, asking.view.document.model, item.raw, checked):
                return
            one = _One(self, asking, exchange, item, us_since(exchange.started_ns))
            if is_usual:
                self._stored.look_up(asking, item, one)
            elif item.record is None or not self._answerer.begin(asking, item, one):
                self._spawn(exchange, self._serve_one(one))
        except Exception as error:  # noqa: BLE001 - told by `_fail`, each kind in its way
            self._fail(exchange, error)

    def _go_on(self, hit: Hit, found: list[object] | Exception) -> None:
        """What went the short way and is no plain hit, from where its look-up ended."""
        exchange = hit.exchange
        try:
            # On the state it began with.
            asking, item = hit.checked or (self._asking(exchange, hit.lane.view), _item(exchange))
            one = _One(self, asking, exchange, item, hit.route_us)
            self._stored.looked_up(asking, item, one, hit.began_ns, found)
        except Exception as error:  # noqa: BLE001 - told by `_fail`, each kind in its way
            self._fail(exchange, error)

    def _spawn(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(self._guarded(exchange, work))
        # Held until it ends, and cancelled where draining takes too long.
        exchange.protocol.tasks.add(task)
        task.add_done_callback(exchange.protocol.tasks.discard)

    async def _guarded(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - told by `_fail`, each kind in its way
            self._fail(exchange, error)

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        if isinstance(error, ClientGone):
            return
        if not isinstance(error, ServingError):
            log.error("a request failed", exc_info=error, extra={"request_id": exchange.request_id})
            error = InternalError("the request failed")
        self._refuse(exchange, error)

    def _asking(self, exchange: Exchange, view: ModelView | None = None) -> Asking:
        view = view or self._view(exchange)
        patience_s = deadline_of(exchange.head, self._deadline_ms) / 1000
        deadline_s = exchange.started_s + patience_s - min(_MARGIN_S, patience_s / 10)
        trace = exchange.trace if self._tracer is not None else None
        return Asking(
            view, deadline_s, exchange.protocol, wish_of(exchange.head), trace.live if trace is not None else None
        )

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

    async def _serve_one(self, one: "_One") -> None:
        (outcome,) = await self._answerer.answer(one.asking, [one.item])
        one.on_answer(outcome)

    async def _compute_one(self, one: "_One", miss: Miss) -> None:
        await self._answerer.compute(one.asking, [miss])
        one.on_answer(miss.outcome)

    def _tell(self, one: "_One") -> bool:
        asking, asked, outcome, error = one.asking, one.asked, one.outcome, one.outcome.error
        post_ns = time.perf_counter_ns()
        one.now_us = now_us = self._clock.now_us()
        lines = conditional(asked.head, outcome, now_us // 1000) if asked.target.kind is Kind.GET else b""
        if outcome.is_not_modified:
            one.status, one.body = 304, b""
        else:
            one.status = error.status if error else 200
            one.body = self._teller.text(outcome, asked.request_id, now_us // 1000)
        one.post_us = us_since(post_ns)
        one.lines = lines + outcome_lines(asking, (outcome,), one.route_us, one.post_us)
        return True

    def _send(self, one: "_One") -> bool:
        send(one.asked, one.status, one.body, one.outcome.error, one.lines)
        return True

    def _log(self, one: "_One") -> bool:
        asked, view = one.asked, one.asking.view
        times_us = (us_since(asked.started_ns), one.route_us, one.post_us)
        row = self._teller.log(view, asked.request_id, one.item, one.outcome, one.now_us, times_us)
        self._teller.trace(asked, view.document.model, row)
        return True

    def _refuse(self, asked: Exchange, error: ServingError) -> None:
        """An answer to the request as a whole."""
        request_id = asked.request_id
        body = orjson.dumps(problem(error, request_id))
        allow = error.context.get("allow")
        lines = b"server-timing: route;dur=%.3f\r\n" % (us_since(asked.started_ns) / 1e3)
        send(asked, error.status, body, error, lines + (f"allow: {allow}\r\n".encode() if allow else b""))
        if self._sink is None:
            return
        model = self._models.get(asked.target.model)
        if model is None:
            self._sink.refuse(error.code)
            return
        total_us = us_since(asked.started_ns)
        view = self._views.get(model)
        outcome = Outcome(version=view.stable if view else None, error=error)
        row = log_row(outcome, request_id, self._clock.now_us(), total_us, total_us, 0)
        self._sink.add(model, row)
        self._teller.trace(asked, model, row)


class _One:
    """A request for one entity, by the general way; told what its look-up finds.

    Attributes:
        outcome: set once it is known; the others after it, when the answer is made.
    """

    __slots__ = (
        *("_predictions", "asked", "asking", "body", "item", "lines", "now_us", "outcome", "post_us"),
        *("route_us", "status"),
    )
    outcome: Outcome
    status: int
    lines: bytes
    body: bytes
    now_us: int
    post_us: int

    def __init__(
        self, predictions: Predictions, asking: Asking, asked: Exchange, item: Item, route_us: int
    ) -> None:
        self._predictions = predictions
        self.asking, self.asked, self.item, self.route_us = asking, asked, item, route_us

    def on_answer(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._predictions._answers.add(self)

    def on_miss(self, miss: Miss) -> None:
        if miss.tensors is None:
            self._spawn(miss)
        else:
            self._predictions._answerer.compute_soon(self.asking, miss, self)

    def on_failed_leader(self, miss: Miss) -> None:
        self._spawn(miss)

    def _spawn(self, miss: Miss) -> None:
        self._predictions._spawn(self.asked, self._predictions._compute_one(self, miss))

    def on_error(self, error: Exception) -> None:
        self._predictions._fail(self.asked, error)


def _item(exchange: Exchange) -> Item:
    """Raises InvalidEntity, InvalidRequest, InvalidFeatures."""
    if exchange.target.kind is Kind.GET:
        entity = decode_entity(exchange.target.entity)
        return Item(entity, check_entity(entity))
    return parse_predict(parse_json(exchange.body))
