"""The short way of most requests: a GET of one entity, with no header of ours, that hits one precomputed set.

It does what `Predictions` and `Stored` do for just this case, in a third of their calls; whatever turns out to be
different goes on their way, with the replies it has. A test holds the answers of both ways against each other.
"""

import logging
import time
from collections.abc import Callable

from online.api.answering.l1 import L1, Kept
from online.api.http.exchange import Exchange
from online.api.http.head import Kind
from online.api.http.lanes import Lane, Lanes, sampled_hit, told
from online.api.http.sink import LogSink
from online.api.lookup.clock import RedisClock
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.requestlog.samples import Samples
from online.api.tracing import AnswerTracer
from schemas.keys import MAX_PLAIN_FIELD_BYTES

log = logging.getLogger(__name__)

# An entity of these is in the path as it is, and is its own field; the limit is that of a plain field too.
_PLAIN = bytes(set(range(0x21, 0x7F)) - {ord("%")})
# Of a span: the route, not the path, so that spans of one kind have one name.
GET_NAME = "GET /v1/models/{model}/predictions/{entity}"
_HEAD = (
    b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\netag: %b\r\nage: %d\r\n"
    b"%bserver-timing: route;dur=%.3f, lookup;dur=%.3f, post;dur=%.3f\r\n"
)


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
        samples: Samples,
        tracer: AnswerTracer | None,
        give_back: "Callable[[Reply, list[object] | Exception], None]",
    ) -> None:
        self._lanes, self._link, self._l1, self._clock = lanes, link, l1, clock
        self._invalidations, self._sink = invalidations, sink
        self._samples, self._tracer, self.give_back = samples, tracer, give_back

    def take(self, exchange: Exchange, model: str) -> bool:
        """Whether this request goes the short way; it is answered now, or where the reply is read."""
        kind, _, raw = exchange.target
        if kind is not Kind.GET or exchange.method != b"GET" or not exchange.head.is_plain:
            return False
        if not 0 < len(raw) <= MAX_PLAIN_FIELD_BYTES or raw.translate(None, delete=_PLAIN):
            return False
        marks, lane = self._invalidations.of(model), self._lanes.of_model(model)
        if marks is None or raw in marks or lane is None:
            return False
        began_ns = time.perf_counter_ns()
        reply = Reply(self, exchange, lane, raw, began_ns, (began_ns - exchange.started_ns) // 1000)
        kept = self._l1.get(lane.version.l1_prefix + raw)
        if kept is not None:
            self._answer(reply, kept)
        else:
            self._link.send(lane.questions(raw), reply)
        return True

    def on_replies(self, reply: "Reply", replies: list[object]) -> None:
        precomputed, written_back = replies
        kept = reply.lane.kept(reply.raw, precomputed, written_back, self._l1, is_tagged=True)
        if kept is None:
            self.give_back(reply, replies)
        else:
            self._answer(reply, kept)

    def _answer(self, reply: "Reply", kept: Kept) -> None:
        exchange, lane = reply.exchange, reply.lane
        post_ns = time.perf_counter_ns()
        lookup_us = (post_ns - reply.began_ns) // 1000
        now_us = self._clock.now_us()
        age_s = max(0, now_us // 1000 - kept.computed_at_ms) // 1000
        request_id = exchange.head.request_id
        request_id_bytes = request_id.encode()
        body = told(kept, request_id_bytes, now_us // 1000)
        post_us = (time.perf_counter_ns() - post_ns) // 1000
        timings_ms = (reply.route_us / 1e3, lookup_us / 1e3, post_us / 1e3)
        head = (len(body), request_id_bytes, kept.etag, age_s, lane.version.cache_lines, *timings_ms)
        exchange.answer(200, _HEAD % head, body)
        if self._sink is None:
            return
        sampled = sampled_hit(self._samples, request_id, lane, reply.raw, kept)
        times_us = ((time.perf_counter_ns() - exchange.started_ns) // 1000, reply.route_us, lookup_us, post_us)
        row = lane.row(kept, reply.raw.decode(), request_id, now_us, times_us, sampled)
        self._sink.add(lane.version.model, row)
        if self._tracer is not None and exchange.trace is not None:
            self._tracer.end(exchange.trace, GET_NAME, lane.version.model, row)


class Reply:
    """One look-up on its way; stands where a future would: see `Sink`."""

    __slots__ = ("_hits", "_is_done", "began_ns", "exchange", "lane", "raw", "route_us")

    def __init__(
        self, hits: Hits, exchange: Exchange, lane: Lane, raw: bytes, began_ns: int, route_us: int
    ) -> None:
        self._hits, self.exchange, self.lane, self.raw = hits, exchange, lane, raw
        self.began_ns, self.route_us, self._is_done = began_ns, route_us, False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, replies: list[object]) -> None:
        self._is_done = True
        try:
            self._hits.on_replies(self, replies)
        except Exception as error:
            # A mistake of ours costs this request the short way, and the connection's others nothing.
            log.exception("a hit failed", extra={"request_id": self.exchange.head.request_id})
            self._hits.give_back(self, error)

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        self._hits.give_back(self, error)
