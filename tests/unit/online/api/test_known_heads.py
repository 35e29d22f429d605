"""A request whose header lines are known is taken as the parser would take it, or left to the parser."""

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from online.api.http.arrivals import Arrivals
from online.api.http.exchange import Exchange
from online.api.http.head import READ_HEADERS
from online.api.http.known_heads import KnownHeads
from online.api.http.protocol import PredictionProtocol

USUAL = b"host: h\r\naccept: */*\r\n\r\n"
# The usual ones, then of the connection, of a body, of the request's own, and lines that do not end as lines do.
BLOCKS = [
    USUAL,
    b"host: h\r\n\r\n",
    b"host: h\r\nX-Request-Id: mine\r\n\r\n",
    b"host: h\r\nConnection: close\r\n\r\n",
    b"host: h\r\nConnection: keep-alive\r\n\r\n",
    b"host: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"host: h\r\nContent-Length: 2\r\n\r\nab",
    b"host: h\r\nX-Deadline-Ms: 5\r\n\r\n",
    b"host: h\r\n\r\nGET /v1/models/m/predictions/second HTTP/1.1\r\nhost: h\r\n\r\n",
    b"host: h\r\n",
    b"host: h\n\n",
    b"\r\n",
]
PATHS = st.one_of(
    st.binary(max_size=12).map(lambda entity: b"/v1/models/m/predictions/" + entity),
    st.sampled_from(
        [
            b"/v1/models/m/predictions/a/b",
            b"/v1/models/m/predictions/a?b=c",
            b"/v1/models/m/predictions/a#b",
            b"/v1/models/m/predictions/a%2Fb",
            b"/v1/models/m%20/predictions/a",
            b"/v1/models/m/x/predictions/a",
            b"/v1/models/m/predict",
            b"/v1/models/",
        ]
    ),
)
LINES = st.builds(
    lambda method, path, version: method + b" " + path + b" " + version + b"\r\n",
    st.sampled_from([*[b"GET"] * 12, b"HEAD", b"GET ", b"POST"]),
    PATHS,
    st.sampled_from([*[b"HTTP/1.1"] * 12, b"HTTP/1.0", b"HTTP/1.1 ", b"HTTP/1.1\r\nx: y"]),
)


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


class Handler:
    """Answers each request at once with what it understood."""

    max_body_bytes, read_headers = 1000, READ_HEADERS

    def __init__(self) -> None:
        self.known_heads, self.arrivals = KnownHeads(), Arrivals(asyncio.get_running_loop())
        self.understood: list[tuple[object, ...]] = []

    def begin(self, exchange: Exchange) -> None:
        head = exchange.head
        self.understood.append((exchange.method, exchange.target, head, exchange.keep_alive, exchange.body))
        exchange.answer(200, b"content-length: 0\r\n", b"")


def connected(handler: Handler) -> tuple[PredictionProtocol, Transport]:
    async def not_found(scope: Any, receive: Any, send: Any) -> None: ...

    config = Config(not_found, log_config=None)
    config.load()
    config.loaded_app = SimpleNamespace(handler=handler)
    protocol, transport = PredictionProtocol(config, ServerState(), {}), Transport()
    protocol.connection_made(transport)
    return protocol, transport


def understood(received: list[bytes], *, forgets: bool) -> tuple[list[tuple[object, ...]], bytes, bool]:
    async def run() -> tuple[list[tuple[object, ...]], bytes, bool]:
        handler = Handler()
        protocol, transport = connected(handler)
        for data in received:
            if forgets:
                handler.known_heads = KnownHeads()
            if not transport.is_closed:
                protocol.take_in(data)
        protocol.connection_lost(None)
        return handler.understood, transport.written, transport.is_closed

    return asyncio.run(run())


@given(st.lists(st.tuples(LINES, st.sampled_from([*[USUAL] * 12, *BLOCKS])), min_size=1, max_size=5))
def test_what_is_known_changes_nothing_of_what_is_understood(requests: list[tuple[bytes, bytes]]) -> None:
    received = [
        line + block for line, block in [(b"GET /v1/models/m/predictions/a HTTP/1.1\r\n", USUAL), *requests]
    ]
    assert understood(received, forgets=False) == understood(received, forgets=True)


async def test_header_lines_are_known_once_they_were_parsed_and_say_nothing() -> None:
    handler = Handler()
    protocol, _ = connected(handler)
    for block in BLOCKS:
        protocol.take_in(b"GET /v1/models/m/predictions/a HTTP/1.1\r\n" + block)
        if protocol.transport.is_closing():
            protocol, _ = connected(handler)
    known = [b"GET /v1/models/m/predictions/b HTTP/1.1\r\n" + block for block in BLOCKS]
    assert [handler.known_heads.target_of(received) is not None for received in known[:3]] == [True, True, False]
    assert len(handler.known_heads) == 2
    protocol.connection_lost(None)


async def test_header_lines_that_never_come_again_are_not_kept_for_ever() -> None:
    handler = Handler()
    protocol, _ = connected(handler)
    for number in range(1000):
        protocol.take_in(b"GET /v1/models/m/predictions/a HTTP/1.1\r\nhost: h\r\nx-n: %d\r\n\r\n" % number)
    assert len(handler.understood) == 1000
    assert 0 < len(handler.known_heads) <= 256
    protocol.connection_lost(None)
