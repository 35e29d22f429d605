"""What connections receive in one turn of the event loop, taken in together when its reading is done.

Between two connections' data the kernel reads, and pushes the code that takes a request in out of the processor's
cache; taken in one after another, requests find it there.
"""

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Receiver(Protocol):
    """A connection."""

    def take_in(self, data: bytes) -> None: ...
    def abort(self) -> None: ...


class Arrivals:
    """Of all connections of a worker, in the order in which they were read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[Receiver, bytes]] = []

    def add(self, receiver: Receiver, data: bytes) -> None:
        """Hands data to its receiver, soon and after all that came before."""
        if not self._waiting:
            self._loop.call_soon(self.take_in)
        self._waiting.append((receiver, data))

    def take_in(self) -> None:
        """Now. A receiver that fails loses its connection, and the others nothing."""
        arrived, self._waiting = self._waiting, []
        for receiver, data in arrived:
            try:
                receiver.take_in(data)
            except Exception:
                log.exception("a connection failed")
                receiver.abort()
