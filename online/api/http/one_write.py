"""uvicorn's HTTP protocol with one write an answer: it sends head and body apart, and each costs a system call, a
packet and a wake-up of the client.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class OneWriteTransport(asyncio.Transport):
    """Joins what is written in one turn of the event loop; everything else is the real transport's."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(bytes(data))

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(b"".join(held))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._held = []
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)


class OneWriteProtocol(HttpToolsProtocol):
    """`Config(http=OneWriteProtocol)`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(OneWriteTransport(cast(asyncio.Transport, transport)))
