"""The worker's two pipes to its node: reports out, orders in. The node's ends close however it dies."""

import asyncio
import os
import sys
from collections.abc import Callable

from online.inference.report import DRAIN, Report, threads_of


class ParentLink(asyncio.Protocol):
    """Calls `on_drain` and `on_threads` on these orders, and `on_gone` when the node has ended."""

    def __init__(
        self, on_drain: Callable[[], None], on_threads: Callable[[int], None], on_gone: Callable[[], None]
    ) -> None:
        self._on_drain, self._on_threads, self._on_gone = on_drain, on_threads, on_gone
        self._unread = b""
        # Whatever else prints goes to standard error: a stray line would break the channel.
        self._report_fd = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        # A node that was stopped (SIGSTOP, debugger) must not stop its workers.
        os.set_blocking(self._report_fd, False)

    async def listen(self) -> None:
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, sys.stdin)

    def data_received(self, data: bytes) -> None:
        *orders, self._unread = (self._unread + data).split(b"\n")
        for order in orders:
            if order == DRAIN:
                self._on_drain()
            elif (threads := threads_of(order)) is not None:
                self._on_threads(threads)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_gone()

    def tell(self, report: Report) -> None:
        """Dropped where the pipe is full: the next one says it again."""
        try:
            os.write(self._report_fd, report.to_line())
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._on_gone()
