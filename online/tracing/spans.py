"""Finished spans, and the thread that sends them to a collector by OTLP over HTTP.

Spans are made when all that they tell is known, off the way of the answer. OpenTelemetry's SDK is imported in the
thread: a process that does not trace loads neither exporter nor protobuf for it.
"""

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger(__name__)

_SEND_S, _PATIENCE_S = 1.0, 2.0
_MAX_WAITING, _MAX_SENT = 20_000, 2_000


class Kind(Enum):
    """As OpenTelemetry's `SpanKind` has them."""

    INTERNAL = 0
    SERVER = 1
    CLIENT = 2


class Span(NamedTuple):
    """Times in ns since the epoch; `parent_id` None for the root of a trace. `error`: why it failed, or empty."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Kind
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, str | int | float | bool]
    error: str = ""


class SpanSender:
    """Use as `with`, around all that calls `put`.

    Args:
        url: base address of a receiver of OTLP over HTTP, such as `http://127.0.0.1:4318`.
        service: the name of this process's part.
    """

    def __init__(self, url: str, service: str) -> None:
        self._url, self._service = f"{url.rstrip('/')}/v1/traces", service
        self._waiting: deque[Span] = deque()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self.sent = self.dropped = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Sends what is left, once."""
        self._ending.set()
        self._thread.join(2 * _PATIENCE_S)

    def put(self, spans: Sequence[Span]) -> None:
        """Never waits and never fails; counted where too many wait."""
        if len(self._waiting) + len(spans) > _MAX_WAITING:
            self.dropped += len(spans)
        else:
            self._waiting.extend(spans)

    def _run(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult

        exporter = OTLPSpanExporter(endpoint=self._url, timeout=_PATIENCE_S)
        make = _Maker(self._service)
        is_last = False
        while not is_last:
            is_last = self._ending.wait(_SEND_S)
            while taken := [self._waiting.popleft() for _ in range(min(_MAX_SENT, len(self._waiting)))]:
                try:
                    result = exporter.export([make(span) for span in taken])
                except Exception:
                    # A collector may be anything; the thread has to outlive it.
                    log.exception("spans could not be sent")
                    result = SpanExportResult.FAILURE
                if result is not SpanExportResult.SUCCESS:
                    self.dropped += len(taken)
                    break
                self.sent += len(taken)
        exporter.shutdown()  # type: ignore[no-untyped-call]


class _Maker:
    """Spans as the exporter takes them."""

    def __init__(self, service: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._resource = Resource.create({"service.name": service})
        self._scope = InstrumentationScope("hotset")

    def __call__(self, span: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def context(span_id: bytes) -> SpanContext:
            trace_number, span_number = (int.from_bytes(one, "big") for one in (span.trace_id, span_id))
            return SpanContext(trace_number, span_number, False, TraceFlags(TraceFlags.SAMPLED))

        return ReadableSpan(
            name=span.name,
            context=context(span.span_id),
            parent=context(span.parent_id) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind(span.kind.value),
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.began_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )
