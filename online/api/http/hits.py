"""The short way of most requests: a GET of one entity, with no header of ours, that hits one precomputed set.

It does what `Predictions` and `Stored` do for just this case, in a third of their calls; whatever turns out to be
different goes on their way, with the replies it has. A test holds the answers of both ways against each other.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import orjson

from online.api.answering.l1 import L1, Kept
from online.api.http.conditional import etag_of_outputs
from online.api.http.documents import rfc3339
from online.api.http.exchange import Exchange
from online.api.http.head import Kind
from online.api.http.sink import LogSink
from online.api.lookup.clock import RedisClock
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get, hget
from online.api.requestlog.samples import Samples
from online.api.routes.view import Layer, ModelView, VersionView
from schemas.codec import CorruptValue, unpack
from schemas.http import Source
from schemas.keys import MAX_PLAIN_FIELD_BYTES, bucket_of

log = logging.getLogger(__name__)

# An entity of these is in the path as it is, and is its own field; the limit is that of a plain field too.
_PLAIN = bytes(set(range(0x21, 0x7F)) - {ord("%")})
_TAIL = b'%.3f,"experiment":null,"arm":null,"request_id":"%b"}'
_HEAD = (
    b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %b\r\netag: %b\r\nage: %d\r\n"
    b"%bserver-timing: route;dur=%.3f, lookup;dur=%.3f, post;dur=%.3f\r\n"
)


class _Lane(NamedTuple):
    """What the hits of one view share. `text`: what stands between entity and label in their answers."""

    view: ModelView
    version: VersionView
    layer: Layer
    text: bytes


class Hits:
    """`give_back` takes a request that turns out to be no such hit, with its replies or why there are none."""

    def __init__(
        self,
        views: Mapping[str, ModelView],
        link: RedisLink,
        l1: L1,
        clock: RedisClock,
        invalidations: Invalidations,
        sink: LogSink,
        samples: Samples,
        give_back: "Callable[[Reply, list[object] | Exception], None]",
    ) -> None:
        self._views, self._link, self._l1, self._clock = views, link, l1, clock
        self._invalidations, self._sink = invalidations, sink
        self._samples, self.give_back = samples, give_back
        self._lanes: dict[str, _Lane] = {}

    def take(self, exchange: Exchange, model: str) -> bool:
        """Whether this request goes the short way; it is answered now, or where the reply is read."""
        kind, _, raw = exchange.target
        if kind is not Kind.GET or exchange.method != b"GET" or not exchange.head.is_plain:
            return False
        if not 0 < len(raw) <= MAX_PLAIN_FIELD_BYTES or raw.translate(None, delete=_PLAIN):
            return False
        marks, lane = self._invalidations.of(model), self._lane(model)
        if marks is None or raw in marks or lane is None:
            return False
        began_ns = time.perf_counter_ns()
        version, layer = lane.version, lane.layer
        reply = Reply(self, exchange, lane, raw, began_ns, (began_ns - exchange.started_ns) // 1000)
        kept = self._l1.get(version.l1_prefix + raw)
        if kept is not None:
            self._answer(reply, kept)
        else:
            place = layer.prefix + b"%d" % bucket_of(raw, layer.buckets)
            self._link.send((hget(place, raw), get(version.live_prefix + raw)), reply)
        return True

    def on_replies(self, reply: "Reply", replies: list[object]) -> None:
        precomputed, written_back = replies
        version, layer = reply.lane.version, reply.lane.layer
        if written_back is not None or not isinstance(precomputed, bytes):
            self.give_back(reply, replies)
            return
        try:
            found = unpack(precomputed, reply.raw, layer.ordinal, version.output_count)
        except CorruptValue:
            self.give_back(reply, replies)
            return
        answer = version.maker.answer(found.outputs)
        own = {"label": answer.label, "confidence": answer.confidence, "outputs": answer.outputs}
        rendered = b'{"entity":%b,%b,%b,"computed_at":"%b","age_s":' % (
            orjson.dumps(reply.raw.decode()),
            reply.lane.text,
            orjson.dumps(own)[1:-1],
            rfc3339(found.computed_at_ms).encode(),
        )
        etag = etag_of_outputs(version, found.computed_at_ms, found.outputs)
        kept = Kept(found.outputs, answer, found.computed_at_ms, layer.generation, rendered, etag)
        self._l1.put(version.l1_prefix + reply.raw, kept)
        self._answer(reply, kept)

    def _lane(self, model: str) -> _Lane | None:
        """None where more than one precomputed set is to be asked, or ages, places or arms to be looked into."""
        view, lane = self._views.get(model), self._lanes.get(model)
        if view is None or (lane is not None and lane.view is view):
            return lane if view is not None else None
        version = view.stable
        is_usual = len(version.layers) == 1 and version.max_age_ms is None and not version.maker.has_places
        if not is_usual or view.document.experiment is not None:
            return None
        (layer,) = version.layers
        shared: dict[str, object] = {"model": version.model, "version": version.name}
        shared |= {"generation": layer.generation, "source": Source.PRECOMPUTED, "miss_reason": None}
        self._lanes[model] = lane = _Lane(view, version, layer, orjson.dumps(shared)[1:-1])
        return lane

    def _answer(self, reply: "Reply", kept: Kept) -> None:
        exchange, version, answer = reply.exchange, reply.lane.version, kept.answer
        post_ns = time.perf_counter_ns()
        lookup_us = (post_ns - reply.began_ns) // 1000
        now_us = self._clock.now_us()
        age_ms = max(0, now_us // 1000 - kept.computed_at_ms)
        request_id = exchange.head.request_id
        request_id_bytes = request_id.encode()
        body = kept.rendered + _TAIL % (age_ms / 1000, request_id_bytes)
        post_us = (time.perf_counter_ns() - post_ns) // 1000
        timings_ms = (reply.route_us / 1e3, lookup_us / 1e3, post_us / 1e3)
        head = (len(body), request_id_bytes, kept.etag, age_ms // 1000, version.cache_lines, *timings_ms)
        exchange.answer(200, _HEAD % head, body)
        inputs = outputs = None
        if self._samples.takes(request_id, reply.raw):
            inputs, outputs = self._samples.parts(reply.lane.view, version, reply.raw, None, kept.outputs)
        total_us = (time.perf_counter_ns() - exchange.started_ns) // 1000
        row = (
            *(now_us, request_id, reply.raw.decode(), version.name, kept.generation, None, None),
            *(Source.PRECOMPUTED, None, 200, None, answer.label, answer.confidence, age_ms),
            *(total_us, reply.route_us, lookup_us, None, None, None, None, post_us),
            *(None, False, inputs, outputs),
        )
        self._sink.add(version.model, row)


class Reply:
    """One look-up on its way; stands where a future would: see `Sink`."""

    __slots__ = ("_hits", "_is_done", "began_ns", "exchange", "lane", "raw", "route_us")

    def __init__(
        self, hits: Hits, exchange: Exchange, lane: _Lane, raw: bytes, began_ns: int, route_us: int
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
