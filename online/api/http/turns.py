"""Turns for long pieces of work, so that the event loop reads its sockets between any two of them."""

import asyncio
from collections import deque


class Turns:
    """One turn for each round of the event loop, in the order asked for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False

    async def next(self) -> None:
        """Returns when nobody else has had this round; what follows, until the next `await`, is the turn."""
        if not self._is_taken:
            self._is_taken = True
            self._loop.call_soon(self._free)
            return
        mine = self._loop.create_future()
        self._waiting.append(mine)
        await mine

    def _free(self) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                self._loop.call_soon(self._free)
                return
        self._is_taken = False
