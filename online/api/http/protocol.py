"""The server's HTTP protocol: predictions straight to their handler, every other path to ASGI through uvicorn.

httptools parses both. For a prediction, ASGI's scope, messages and patterns for headers would cost more than the
look-up itself. What is shared is uvicorn's: the order of pipelined requests, draining, the list of connections.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from online.api.http.arrivals import Arrivals
from online.api.http.exchange import Exchange
from online.api.http.head import PLAIN_HEAD, Target, read_head, target_of
from online.api.http.known_heads import KnownHeads


class Handler(Protocol):
    """What answers predictions."""

    max_body_bytes: int
    read_headers: frozenset[bytes]
    known_heads: KnownHeads
    arrivals: Arrivals

    def begin(self, exchange: Exchange) -> None:
        """Answers it, now or soon; does not raise."""


class PredictionProtocol(HttpToolsProtocol):
    """`Config(http=PredictionProtocol)`; the application has a `handler`.

    Each of `on_lost` is called if the connection ends while it is in there.
    """

    is_lost = False
    _default_lines: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._handler: Handler = cast(Any, self.app).handler
        self._is_held = self._is_starting = self._has_head = False
        self._is_between = True  # requests: the parser has taken in whole ones
        self._started: RequestResponseCycle | None = None
        self.on_lost: set[Callable[[], None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._heard_s, self._heard_ns = 0.0, 0

    def default_lines(self) -> bytes:
        """The server's own headers; uvicorn makes a new list of them each second."""
        given, lines = self._default_lines
        headers = self.server_state.default_headers
        if given is not headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            # Of all connections, which have the same.
            type(self)._default_lines = (headers, lines)
        return lines

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self._heard_s = self.loop.time()
        self._idle_timer = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_lost = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for call in tuple(self.on_lost):
            call()

    def data_received(self, data: bytes) -> None:
        self._heard_s, self._heard_ns = self.loop.time(), time.perf_counter_ns()
        self._handler.arrivals.add(self, data)

    def shutdown(self) -> None:
        self._handler.arrivals.take_in()  # what was received is answered
        super().shutdown()

    def abort(self) -> None:
        self.transport.abort()

    def take_in(self, data: bytes) -> None:
        """What was received; see `Arrivals`."""
        if self.is_lost:
            return
        before = self.cycle
        if not self._is_between or (before is not None and not before.response_complete):
            super().data_received(data)
            return
        heads = self._handler.known_heads
        target = heads.target_of(data)
        if target is not None:
            self._begin_known(target)
            return
        super().data_received(data)
        now = self.cycle
        if self._is_between and now is not before and isinstance(now, Exchange) and now.head is PLAIN_HEAD:
            heads.learn(data, self.headers)

    def _begin_known(self, target: Target) -> None:
        """As the parser's calls for a whole request without a body would."""
        exchange = Exchange(self, b"GET", target, PLAIN_HEAD, True, self._heard_s, self._heard_ns)
        exchange.more_body = False
        self.cycle = self._started = cast(RequestResponseCycle, exchange)
        self._handler.begin(exchange)

    def on_message_begin(self) -> None:
        self._is_between = False
        self.url = b""
        self.expect_100_continue = self._has_head = False
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self.headers.append((name, value))
        if name in self._handler.read_headers:
            self._has_head = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True

    def on_headers_complete(self) -> None:
        url = self.url
        is_plain = url.startswith(b"/") and b"#" not in url
        target = target_of(url.partition(b"?")[0] if is_plain else httptools.parse_url(url).path)
        if target is None:
            self._begin_asgi()
            return
        parser = self.parser
        exchange = Exchange(
            self,
            parser.get_method(),
            target,
            read_head(self.headers) if self._has_head else PLAIN_HEAD,
            parser.should_keep_alive() and parser.get_http_version() != "1.0",
            self._heard_s,
            self._heard_ns,
        )
        before, self.cycle = self.cycle, cast(RequestResponseCycle, exchange)
        length = exchange.head.content_length
        if length is not None and length.isdigit() and int(length) > self._handler.max_body_bytes:
            exchange.is_too_large = True
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
        elif not exchange.is_too_large:
            exchange.take(body, self._handler.max_body_bytes)
            if exchange.is_too_large:
                self._begin_if_ready(exchange)

    def on_message_complete(self) -> None:
        self._is_between = True
        exchange = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif exchange.more_body:
            exchange.more_body = False
            if not exchange.is_too_large:
                self._begin_if_ready(exchange)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        flow = self.flow
        if not self._is_starting and (self.pipeline or flow.write_paused or flow.read_paused):
            self._go_on()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_held:
            self._go_on()

    def _go_on(self) -> None:
        """Starts the requests that wait their turn; one may be answered before it has been started in full."""
        if self._started is not None and not self._started.response_complete:
            return  # the client reads again, but a request that began meanwhile goes before those that wait
        self._is_starting = True
        while not self.transport.is_closing():
            # A client that does not read its answers is not read from either. And while requests wait, no more are
            # taken in: uvicorn would read on, and so hold hundreds for each that it answers.
            self._is_held = self.flow.write_paused
            if self._is_held:
                self.flow.pause_reading()
                break
            if not self.pipeline:
                self.flow.resume_reading()
                break
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            if not cycle.response_complete:
                break
        self._is_starting = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._started = cycle
        if not isinstance(cycle, Exchange):
            super()._start_asgi_task(cycle, app)
            return
        cycle.is_due = True
        if self.expect_100_continue and cycle.more_body and not cycle.is_too_large:
            cycle.invite()
        self._begin_if_ready(cycle)

    def _begin_if_ready(self, exchange: Exchange) -> None:
        if exchange.is_due and (exchange.is_too_large or not exchange.more_body):
            self._handler.begin(exchange)

    def _begin_asgi(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def _close_if_idle(self) -> None:
        """Between requests, or in the midst of one that does not come."""
        left_s = self._heard_s + self.timeout_keep_alive - self.loop.time()
        is_answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if left_s <= 0 and not is_answering:
            self.transport.close()
        else:
            self._idle_timer = self.loop.call_later(max(left_s, 1.0), self._close_if_idle)
