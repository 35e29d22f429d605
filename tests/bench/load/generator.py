"""Sends requests at given times over keep-alive connections and keeps the answers, with as little work as may be.

One thread over epoll: no event loop, no parsing but for the end of an answer. A request is sent at its time
whether or not earlier ones were answered (open loop); one that finds no connection free opens another.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.load.answer import NotAnAnswer, length_of
from tests.bench.load.connection import Connection, Target
from tests.bench.load.timer import Timer

_NEVER_S = float("inf")
_READ_BYTES = 1 << 16
# Sent a moment early rather than slept for again: less than a wake-up takes.
_EARLY_S = 2e-5


@dataclass
class Sent:
    """By request: seconds from the start (inf: never), and the answer's bytes, or empty where there was none.

    `began_s`: the start, by `time.perf_counter`, which all processes of a Linux machine share.
    """

    sent_s: list[float]
    done_s: list[float]
    answers: list[bytes]
    connections: int = 0
    began_s: float = 0.0


class Generator:
    """One run of `requests` at `at_s`, seconds from the start, ascending. Used once, by `run`."""

    def __init__(self, target: Target, at_s: Sequence[float], requests: Sequence[bytes]) -> None:
        self._target, self._at_s, self._requests = target, at_s, requests
        self._epoll, self._timer = select.epoll(), Timer()
        self._open: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._waiting: deque[int] = deque()
        self._next, self._left = 0, len(at_s)
        count = len(at_s)
        self._sent = Sent([_NEVER_S] * count, [_NEVER_S] * count, [b""] * count)

    def run(self, patience_s: float) -> Sent:
        """Returns when all are answered, or `patience_s` after the last was due."""
        self._epoll.register(self._timer.fileno(), select.EPOLLIN)
        try:
            for _ in range(self._target.connections):
                self._idle.append(self._connect())
            self._start_s = self._sent.began_s = time.perf_counter() + 0.05
            self._loop(patience_s)
        finally:
            for connection in self._open.values():
                connection.socket.close()
            self._timer.close()
            self._epoll.close()
        return self._sent

    def _loop(self, patience_s: float) -> None:
        ends_s = self._start_s + (self._at_s[-1] if len(self._at_s) else 0.0) + patience_s
        timer = self._timer.fileno()
        while self._left:
            self._timer.set(ends_s if self._next == len(self._at_s) else self._due_s())
            ready = self._epoll.poll()
            self._send_due()
            for fd, _ in ready:
                if fd != timer and (connection := self._open.get(fd)) is not None:
                    self._read(connection)
            if time.perf_counter() >= ends_s:
                return

    def _due_s(self) -> float:
        return self._start_s + self._at_s[self._next]

    def _send_due(self) -> None:
        now_s = time.perf_counter()
        while self._next < len(self._at_s) and self._due_s() <= now_s + _EARLY_S:
            self._waiting.append(self._next)
            self._next += 1
            self._send_waiting()
            now_s = time.perf_counter()

    def _send_waiting(self) -> None:
        while self._waiting and (self._idle or len(self._open) < self._target.max_connections):
            connection = self._idle.pop() if self._idle else self._connect_or_none()
            request = self._waiting.popleft()
            if connection is None:
                self._left -= 1
                continue
            connection.request = request
            self._sent.sent_s[request] = time.perf_counter() - self._start_s
            try:
                # A few hundred bytes on an idle connection: the kernel takes all or the connection is broken.
                is_sent = connection.socket.send(self._requests[request]) == len(self._requests[request])
            except OSError:
                is_sent = False
            if not is_sent:
                self._drop(connection)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now_s = time.perf_counter()
        if not data or connection.request < 0:  # closed, or an answer to nothing
            self._drop(connection)
        else:
            self._receive(connection, data, now_s)
        if self._waiting:
            self._send_waiting()
        if self._next < len(self._at_s) and self._due_s() <= now_s:
            self._send_due()

    def _receive(self, connection: Connection, data: bytes, now_s: float) -> None:
        connection.received += data
        try:
            length = length_of(connection.received)
        except NotAnAnswer:
            length = 0
        if length == len(connection.received):
            self._take(connection, now_s)
        elif length is not None and length < len(connection.received):
            self._drop(connection)

    def _take(self, connection: Connection, now_s: float) -> None:
        self._sent.done_s[connection.request] = now_s - self._start_s
        self._sent.answers[connection.request] = connection.received
        connection.request, connection.received = -1, b""
        self._left -= 1
        self._idle.append(connection)

    def _connect(self) -> Connection:
        connection = Connection(self._target)
        self._open[connection.socket.fileno()] = connection
        self._epoll.register(connection.socket.fileno(), select.EPOLLIN)
        self._sent.connections += 1
        return connection

    def _connect_or_none(self) -> Connection | None:
        try:
            return self._connect()
        except OSError:
            return None

    def _drop(self, connection: Connection) -> None:
        """Its request, if any, stays without an answer."""
        del self._open[connection.socket.fileno()]
        connection.socket.close()
        if connection.request >= 0:
            self._left -= 1
        elif connection in self._idle:
            self._idle.remove(connection)
