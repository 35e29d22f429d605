"""Pipelined requests on a connection whose client reads in fits: no answer overtakes another.

The transport and the handler are the test's own, since when a real socket is full is not for it to choose.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from online.api.http.arrivals import Arrivals
from online.api.http.exchange import Exchange
from online.api.http.head import READ_HEADERS
from online.api.http.known_heads import KnownHeads
from online.api.http.protocol import PredictionProtocol


class Transport(asyncio.Transport):
    def write(self, data: Any) -> None: ...
    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class Handler:
    max_body_bytes, read_headers = 1000, READ_HEADERS

    def __init__(self) -> None:
        self.known_heads, self.arrivals = KnownHeads(), Arrivals(asyncio.get_running_loop())
        self.begun: list[Exchange] = []

    def begin(self, exchange: Exchange) -> None:
        self.begun.append(exchange)

    @property
    def entities(self) -> list[bytes]:
        return [exchange.target.entity for exchange in self.begun]


def get(entity: bytes) -> bytes:
    return b"GET /v1/models/m/predictions/%b HTTP/1.1\r\nhost: h\r\n\r\n" % entity


async def received(protocol: PredictionProtocol, data: bytes) -> None:
    protocol.data_received(data)
    await asyncio.sleep(0)  # it is taken in when the loop's turn ends


async def test_one_that_began_while_the_client_did_not_read_goes_before_those_that_wait() -> None:
    handler = Handler()
    config = Config(lambda scope: None)
    config.load()
    config.loaded_app = SimpleNamespace(handler=handler)
    protocol = PredictionProtocol(config, ServerState(), {})
    protocol.connection_made(Transport())
    await received(protocol, get(b"a"))
    protocol.pause_writing()
    handler.begun[0].answer(200, b"content-length: 0\r\n", b"")
    await received(protocol, get(b"b") + get(b"c"))
    protocol.resume_writing()
    assert handler.entities == [b"a", b"b"]
    handler.begun[1].answer(200, b"content-length: 0\r\n", b"")
    assert handler.entities == [b"a", b"b", b"c"]
    protocol.connection_lost(None)
