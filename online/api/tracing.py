"""Spans of answers: a trace is taken up or begun when a request comes, and told when it is answered.

A request's span has one for each stage that it passed. The log's row gives their durations; since it does not say
when each began, they are laid out in order: route, look-up and features from the beginning, the text of the answer
at the end, and the exchange with the live tier between. The inference tier's own spans are children of that one.
"""

import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from online.tracing.context import TraceContext, new_span_id, new_trace_id, parse, part_id
from online.tracing.spans import Kind, Span, SpanSender

# Places in the log's row (`schemas.arrow.REQUEST_LOG`), held against it by a test.
REQUEST_ID, ENTITY, VERSION, GENERATION, ARM, SOURCE, REASON, STATUS, CODE = 1, 2, 3, 4, 6, 7, 8, 9, 10
TOTAL, ROUTE, LOOKUP, FEATURES, QUEUE, EXECUTE, POST, BATCH_ROWS = 14, 15, 16, 17, 18, 20, 21, 22
_TOLD = {
    "hotset.entity": ENTITY,
    "hotset.version": VERSION,
    "hotset.generation": GENERATION,
    "hotset.arm": ARM,
    "hotset.source": SOURCE,
    "hotset.miss_reason": REASON,
    "error.type": CODE,
}
LIVE = "live"


class RequestTrace(NamedTuple):
    """`own`: the request's span; `parent`: of whoever sent it."""

    own: TraceContext
    parent: bytes | None

    @property
    def live(self) -> TraceContext:
        """What the live tier's spans are children of."""
        return self.own._replace(span_id=part_id(self.own.span_id, LIVE))


class AnswerTracer:
    """
    Args:
        share: of the requests that come without a trace; those that come with one say themselves.
    """

    def __init__(self, sender: SpanSender, share: float) -> None:
        self._sender, self._share = sender, share

    def begin(self, traceparent: bytes | None) -> RequestTrace | None:
        """None where this request is not traced."""
        given = parse(traceparent) if traceparent is not None else None
        if given is None:
            is_taken = random.random() < self._share
            return RequestTrace(TraceContext(new_trace_id(), new_span_id(), True), None) if is_taken else None
        if not given.is_sampled:
            return None
        return RequestTrace(TraceContext(given.trace_id, new_span_id(), True), given.span_id)

    def end(self, trace: RequestTrace, name: str, model: str, row: Sequence[object], entities: int = 1) -> None:
        """Tells of an answer. `row`: its row of the log, or of a batch the one that took longest."""
        self._sender.put(list(_spans(trace, name, model, row, entities, time.time_ns())))


def _spans(
    trace: RequestTrace, name: str, model: str, row: Sequence[object], entities: int, ended_ns: int
) -> Iterator[Span]:
    trace_id, own = trace.own.trace_id, trace.own.span_id
    began_ns, status = ended_ns - 1000 * _us(row[TOTAL]), _us(row[STATUS])
    told: dict[str, str | int] = {"hotset.model": model, "http.response.status_code": status}
    told |= {"hotset.request_id": str(row[REQUEST_ID]), "hotset.entities": entities}
    told |= {key: str(value) for key, place in _TOLD.items() if (value := row[place]) is not None}
    error = str(row[CODE]) if status >= 500 else ""
    yield Span(trace_id, own, trace.parent, name, Kind.SERVER, began_ns, ended_ns, told, error)

    def part(what: str, kind: Kind, from_ns: int, to_ns: int, **more: int) -> Span:
        return Span(trace_id, part_id(own, what), own, what, kind, from_ns, to_ns, more)

    at_ns = began_ns
    for what, place in (("route", ROUTE), ("lookup", LOOKUP), ("features", FEATURES)):
        if row[place] is not None:
            yield part(what, Kind.INTERNAL, at_ns, until_ns := min(ended_ns, at_ns + 1000 * _us(row[place])))
            at_ns = until_ns
    post_ns = max(at_ns, ended_ns - 1000 * _us(row[POST]))
    if row[QUEUE] is not None:
        yield part(LIVE, Kind.CLIENT, at_ns, post_ns, **{"hotset.batch_rows": _us(row[BATCH_ROWS])})
    yield part("post", Kind.INTERNAL, post_ns, ended_ns)


def _us(value: object) -> int:
    return value if isinstance(value, int) else 0
