"""One request to a prediction end point, from its head to its answer, on the connection it came by."""

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from online.api.http.head import Head, Target, request_id_of

if TYPE_CHECKING:
    from online.api.http.protocol import PredictionProtocol
    from online.api.tracing import RequestTrace

_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class _NoEvent:
    """uvicorn's protocol sets an event of the request at hand, for `receive`; nothing here waits for one."""

    def set(self) -> None: ...


class Exchange:
    """Made when the head is read; handled when the body is too, or is known to be too long.

    The attributes in uvicorn's names are read by its protocol, in whose place of a request this stands.

    Attributes:
        request_id: taken from the head, or made.
        started_s, started_ns: when the head was read, by the event loop's clock and by `perf_counter_ns`.
        is_too_large: the body is over the limit, and was not kept.
        trace: what it is part of; set only where answers are traced.
    """

    __slots__ = (
        *("_chunks", "_size", "disconnected", "head", "is_due", "is_too_large", "keep_alive", "method"),
        *("more_body", "protocol", "request_id", "response_complete", "started_ns", "started_s", "target"),
        "trace",
    )
    message_event = _NoEvent()
    trace: "RequestTrace | None"

    def __init__(
        self,
        protocol: "PredictionProtocol",
        method: bytes,
        target: Target,
        head: Head,
        keep_alive: bool,
        started_s: float,
        started_ns: int,
    ) -> None:
        self.protocol, self.method, self.target, self.head = protocol, method, target, head
        self.keep_alive, self.started_s, self.started_ns = keep_alive, started_s, started_ns
        self.request_id = request_id_of(head.request_id)
        self._chunks: list[bytes] | None = None
        self._size = 0
        self.more_body, self.is_due, self.is_too_large = True, False, False
        self.response_complete, self.disconnected = False, False

    @property
    def body(self) -> bytes:
        return b"".join(self._chunks) if self._chunks else b""

    def take(self, body: bytes, max_bytes: int) -> None:
        """Keeps a part of the body."""
        self._size += len(body)
        if self._size > max_bytes:
            self.is_too_large, self._chunks = True, None
        elif self._chunks is None:
            self._chunks = [body]
        else:
            self._chunks.append(body)

    def invite(self) -> None:
        """Asks a client that wants to be asked for the body."""
        self.protocol.transport.write(_GO_ON)

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Writes the answer, the first that is given. Does nothing once the client has gone.

        Args:
            head: header lines, each with its end, content-length among them. Nothing in them is checked.
        """
        protocol = self.protocol
        if self.response_complete or protocol.is_lost:
            return
        self.response_complete = True
        end = b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n"
        if self.method == b"HEAD":
            body = b""
        protocol.transport.write(b"".join((STATUS_LINE[status], protocol.default_lines(), head, end, body)))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()
