"""The short way of most requests: for one entity, with nothing asked that changes the answer, that hit one
precomputed set.

It does what `Predictions` and `Stored` do for just this case, in a third of their calls; whatever turns out to be
different goes on their way, with the replies it has. A test holds the answers of both ways against each other.
"""

import logging
import time
from collections.abc import Callable, Sequence

import orjson

from online.api.answering.asking import Asking
from online.api.answering.l1 import L1, Kept
from online.api.answering.outcome import Item
from online.api.http.exchange import Exchange
from online.api.http.head import SPAN_NAMES, Kind
from online.api.http.lanes import Lane, Lanes, told
from online.api.http.sink import LogSink
from online.api.http.steps import Steps
from online.api.lookup.clock import RedisClock
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.requestlog.hit_columns import whole_row
from online.api.tracing import AnswerTracer
from schemas.keys import MAX_PLAIN_FIELD_BYTES

log = logging.getLogger(__name__)

# An entity of these is in the path as it is, and is its own field; the limit is that of a plain field too.
_PLAIN = bytes(set(range(0x21, 0x7F)) - {ord("%")})
_HEAD = (
    b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\n"
    b"%bserver-timing: route;dur=%.3f, lookup;dur=%.3f, post;dur=%.3f\r\n"
)
_GET_LINES = b"etag: %b\r\nage: %d\r\n%b"


class Hits:
    """`give_back` takes a request that turns out to be no such hit, with its replies or why there are none."""

    def __init__(
        self,
        lanes: Lanes,
        link: RedisLink,
        l1: L1,
        clock: RedisClock,
        invalidations: Invalidations,
        sink: LogSink | None,
        tracer: AnswerTracer | None,
        give_back: "Callable[[Hit, list[object] | Exception], None]",
    ) -> None:
        self._lanes, self._link, self._l1, self._clock = lanes, link, l1, clock
        self._invalidations, self._sink = invalidations, sink
        self._tracer, self.give_back = tracer, give_back
        self._landed = Steps[Hit](self._is_told, self._send, failed=self._fail, last=self._log)

    def take_plain(self, exchange: Exchange, model: str) -> bool:
        """As `take`, by the path alone, of a request that has not been checked."""
        kind, _, raw = exchange.target
        if kind is not Kind.GET or exchange.method != b"GET" or not exchange.head.is_plain:
            return False
        if not 0 < len(raw) <= MAX_PLAIN_FIELD_BYTES or raw.translate(None, delete=_PLAIN):
            return False
        return self.take(exchange, model, raw)

    def take(self, exchange: Exchange, model: str, raw: bytes, checked: tuple[Asking, Item] | None = None) -> bool:
        """Whether this request goes the short way; it is answered when the turn of the loop ends that finds it.

        Args:
            raw: the entity. Nothing else that the request says changes its answer.
            checked: the request, where it has been.
        """
        marks, lane = self._invalidations.of(model), self._lanes.of_model(model)
        if marks is None or raw in marks or lane is None:
            return False
        hit = Hit(self, exchange, lane, raw, checked)
        kept = self._l1.get(lane.version.l1_prefix + raw)
        if kept is None:
            self._link.send(lane.questions(raw), hit)
        else:
            hit.kept = kept
            self.land(hit)
        return True

    def land(self, hit: "Hit") -> None:
        """Its replies are there, or it was kept."""
        self._landed.add(hit)

    def _is_told(self, hit: "Hit") -> bool:
        """Makes the answer; what turns out to be no plain hit goes on by the general way."""
        if hit.replies is not None:
            precomputed, written_back = hit.replies
            kept = hit.lane.kept(hit.raw, precomputed, written_back, self._l1, is_tagged=True)
            if kept is None:
                self.give_back(hit, hit.replies)
                return False
            hit.kept = kept
        self._tell(hit, hit.kept)
        return True

    def _send(self, hit: "Hit") -> bool:
        hit.exchange.answer(200, hit.head, hit.body)
        if self._sink is None:
            return False
        hit.total_us = (time.perf_counter_ns() - hit.exchange.started_ns) // 1000
        return True

    def _fail(self, hit: "Hit", error: Exception) -> None:
        """A mistake of ours costs this request the short way."""
        log.error("a hit failed", exc_info=error, extra={"request_id": hit.exchange.request_id})
        if not hit.exchange.response_complete:
            self.give_back(hit, error)

    def _tell(self, hit: "Hit", kept: Kept) -> None:
        exchange, lane = hit.exchange, hit.lane
        post_ns = time.perf_counter_ns()
        hit.lookup_us = (post_ns - hit.began_ns) // 1000
        hit.now_us = now_us = self._clock.now_us()
        now_ms = now_us // 1000
        hit.request_id = request_id = exchange.request_id.encode()
        # One that we made needs no quoting.
        quoted = request_id if exchange.head.request_id is None else orjson.dumps(exchange.request_id)[1:-1]
        hit.body = told(kept, quoted, now_ms)
        hit.post_us = (time.perf_counter_ns() - post_ns) // 1000
        more = b""
        if exchange.target.kind is Kind.GET:
            age_s = max(0, now_ms - kept.computed_at_ms) // 1000
            more = _GET_LINES % (kept.etag, age_s, lane.version.cache_lines)
        timings_ms = (hit.route_us / 1e3, hit.lookup_us / 1e3, hit.post_us / 1e3)
        hit.head = _HEAD % (len(hit.body), request_id, more, *timings_ms)

    def _log(self, hits: "Sequence[Hit]") -> None:
        assert self._sink is not None
        self._sink.hits.add(hits)
        if self._tracer is not None:
            for hit in hits:
                self._trace(self._tracer, hit)

    def _trace(self, tracer: AnswerTracer, hit: "Hit") -> None:
        trace, version = hit.exchange.trace, hit.lane.version
        if trace is not None:
            numbers = (hit.now_us, hit.total_us, hit.route_us, hit.lookup_us, hit.post_us)
            row = whole_row(version, hit.kept, hit.request_id, numbers)
            tracer.end(trace, SPAN_NAMES[hit.exchange.target.kind], version.model, row)


class Hit:
    """One request on the short way; stands where a future would while it is looked up: see `Sink`.

    Attributes:
        checked: the request, where it was checked before it came this way.
        kept: what is answered, set once that is known.
        replies: Redis's, where it was asked.
        head, body, request_id, now_us, lookup_us, post_us: set when the answer is made; total_us when it is sent.
    """

    __slots__ = (
        *("_hits", "_is_done", "began_ns", "body", "checked", "exchange", "head", "kept", "lane", "lookup_us"),
        *("now_us", "post_us", "raw", "replies", "request_id", "route_us", "total_us"),
    )
    kept: Kept
    head: bytes
    body: bytes
    request_id: bytes
    now_us: int
    lookup_us: int
    post_us: int
    total_us: int

    def __init__(
        self, hits: Hits, exchange: Exchange, lane: Lane, raw: bytes, checked: tuple[Asking, Item] | None
    ) -> None:
        self._hits, self.exchange, self.lane, self.raw, self.checked = hits, exchange, lane, raw, checked
        self.began_ns = began_ns = time.perf_counter_ns()
        self.route_us = (began_ns - exchange.started_ns) // 1000
        self._is_done = False
        self.replies: list[object] | None = None

    def done(self) -> bool:
        return self._is_done

    def set_result(self, replies: list[object]) -> None:
        self._is_done, self.replies = True, replies
        self._hits.land(self)

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        self._hits.give_back(self, error)
