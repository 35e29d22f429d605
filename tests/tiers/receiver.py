"""A receiver of OTLP over HTTP: it takes what an OpenTelemetry collector takes, and keeps the spans."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Received(NamedTuple):
    """A span, and the service that it is of."""

    service: str
    span: Span

    @property
    def told(self) -> dict[str, object]:
        return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in self.span.attributes}


class OtlpReceiver:
    """Use as `with`."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def traces(self) -> set[str]:
        return {one.span.trace_id.hex() for one in list(self.spans)}

    def of(self, trace_id: str) -> list[Received]:
        return [one for one in list(self.spans) if one.span.trace_id.hex() == trace_id]

    def _take(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert (request.path, request.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            spans = [span for scope in resource.scope_spans for span in scope.spans]
            self.spans += [Received(named["service.name"], span) for span in spans]
        answer = ExportTraceServiceResponse().SerializeToString()
        request.send_response(200)
        request.send_header("Content-Type", "application/x-protobuf")
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer)
