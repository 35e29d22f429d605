"""Which server is given the next request: the one with the least outstanding, each with a bound, others in line.

A slot that comes free is handed to the first in line who can use it: nobody overtakes, and no wake-up is lost.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from online.api.live.foreign.server import ForeignServer
from online.errors import DeadlineExceeded, Overloaded

_MAX_WAITING_PER_SLOT = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """`given` gets the server, its slot taken; or None where no server has the version any more."""

    digest: str
    tried: Sequence[ForeignServer]
    given: "asyncio.Future[ForeignServer | None]"


class Slots:
    """`concurrency` of each server."""

    def __init__(self, servers: Sequence[ForeignServer], concurrency: int) -> None:
        self._servers, self._concurrency = servers, concurrency
        self._line: list[_Turn] = []

    async def take(self, digest: str, tried: Sequence[ForeignServer], deadline_s: float) -> ForeignServer | None:
        """A server that has the version warm, none of `tried`; to be given back. None: there is none.

        Raises:
            Overloaded: too many are in line. DeadlineExceeded: it passed while in line.
        """
        turn = _Turn(digest, tried, asyncio.get_running_loop().create_future())
        if not self._settle(turn):
            if len(self._line) >= _MAX_WAITING_PER_SLOT * self._concurrency * len(self._servers):
                raise Overloaded("too many requests wait for the servers")
            self._line.append(turn)
        try:
            async with asyncio.timeout_at(deadline_s):
                return await turn.given
        except TimeoutError:
            self._leave(turn)
            raise DeadlineExceeded("the deadline passed before a server was free") from None
        except asyncio.CancelledError:
            self._leave(turn)
            raise

    def are_mostly_free(self, digest: str) -> bool:
        """Whether a server that has the version warm has more free slots than taken ones."""
        return any(
            server.is_warm(digest) and 2 * server.outstanding < self._concurrency for server in self._servers
        )

    def give_back(self, server: ForeignServer) -> None:
        server.outstanding -= 1
        self.settle_line()

    def settle_line(self) -> None:
        """To be called when a server became warm or is lost, too."""
        if self._line:
            self._line = [turn for turn in self._line if not self._settle(turn)]

    def _settle(self, turn: _Turn) -> bool:
        """Whether the turn needs to be in line no longer."""
        if turn.given.done():
            return True
        warm = [server for server in self._servers if server.is_warm(turn.digest) and server not in turn.tried]
        server = min(warm, key=lambda server: server.outstanding, default=None)
        if server is not None:
            if server.outstanding >= self._concurrency:
                return False
            server.outstanding += 1
        turn.given.set_result(server)
        return True

    def _leave(self, turn: _Turn) -> None:
        """Of one who gives up: out of the line, or, where a slot came in that moment, it is given back."""
        if turn.given.cancelled() or not turn.given.done():
            turn.given.cancel()
            self._line = [other for other in self._line if other is not turn]
        elif (server := turn.given.result()) is not None:
            self.give_back(server)
