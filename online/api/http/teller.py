"""What an outcome leaves: the answer's text, its row in the request log, the spans of its trace."""

from collections.abc import Sequence

from online.api.answering.l1 import L1, Kept
from online.api.answering.outcome import Item, Outcome
from online.api.http.conditional import etag_of
from online.api.http.documents import log_row, result_json
from online.api.http.exchange import Exchange
from online.api.http.head import SPAN_NAMES
from online.api.http.sink import LogSink
from online.api.requestlog.columns import Row
from online.api.requestlog.places import place_of
from online.api.requestlog.samples import Parts, Samples
from online.api.routes.view import ModelView
from online.api.tracing import AnswerTracer
from online.errors import ServingError
from schemas.http import Source


class Teller:
    """Holds no state of a request. `sink` is None where nothing is logged, `tracer` where nothing is traced."""

    def __init__(self, l1: L1, sink: LogSink | None, samples: Samples, tracer: AnswerTracer | None) -> None:
        self._l1, self.sink, self.samples, self._tracer = l1, sink, samples, tracer

    def text(self, outcome: Outcome, request_id: str, now_ms: int) -> bytes:
        """As `documents.result_json`; L1 keeps it where it may."""
        told = result_json(outcome, request_id, now_ms)
        entity = outcome.entity
        if (
            outcome.keep_as is not None
            and entity is not None
            and outcome.outputs is not None
            and outcome.answer is not None
            and outcome.rendered is not None
        ):
            etag = outcome.etag or etag_of(outcome)
            kept = Kept(
                *(entity.encode(), outcome.outputs, outcome.answer, outcome.computed_at_ms, outcome.generation),
                outcome.rendered,
                etag,
            )
            self._l1.put(outcome.keep_as, kept)
        return told

    def log(
        self,
        view: ModelView,
        request_id: str,
        item: Item | ServingError,
        outcome: Outcome,
        now_us: int,
        times_us: tuple[int, int, int],
    ) -> Row | None:
        """The row that this leaves. `times_us`: in total, before the look-up, and for the answer's text."""
        if self.sink is None:
            return None
        row = log_row(outcome, request_id, now_us, *times_us)
        if outcome.outputs is not None and isinstance(item, Item):
            place = place_of(request_id.encode(), item.raw)
            if self.samples.takes(place):
                row = (*row[:-2], *self._sampled(view, request_id, item, outcome, outcome.outputs, place))
        self.sink.add(view.document.model, row)
        return row

    def _sampled(
        self,
        view: ModelView,
        request_id: str,
        item: Item,
        outcome: Outcome,
        outputs: Sequence[float],
        place: int,
    ) -> Parts:
        """The row's last columns; a hit is offered to be compared, too."""
        if outcome.source is Source.PRECOMPUTED and outcome.version and outcome.generation:
            hit = (outcome.version, item.raw, outcome.generation, outputs)
            self.samples.offer(place, request_id, view, *hit)
        return self.samples.parts(view, outcome.version, item.raw, outcome.record, outputs)

    def trace(self, asked: Exchange, model: str, row: Row | None, entities: int = 1) -> None:
        """`row`: of the entity that took longest."""
        if self._tracer is not None and asked.trace is not None and row is not None:
            self._tracer.end(asked.trace, SPAN_NAMES[asked.target.kind], model, row, entities)
