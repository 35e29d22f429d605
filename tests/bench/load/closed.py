"""A closed loop: each connection sends its next request when its last is answered, for a given time.

As cheap as the open loop's generator, and for the same reason: one thread over epoll, and no parsing but for the
end of an answer.
"""

import select
import time
from collections.abc import Sequence

from tests.bench.load.answer import NotAnAnswer, length_of
from tests.bench.load.connection import Connection, Target
from tests.bench.load.generator import Sent

_NEVER_S = float("inf")
_READ_BYTES = 1 << 18
_START_S = 0.05  # from the opening of connections, which keeps the server busy


class ClosedLoop:
    """Sends `requests` in order, from the first again after the last, over `target.connections`. Used once."""

    def __init__(self, target: Target, requests: Sequence[bytes]) -> None:
        self._target, self._requests = target, requests
        self._epoll = select.epoll()
        self._open: dict[int, Connection] = {}
        self._in_flight = 0
        self._sent = Sent([], [], [])

    def run(self, duration_s: float, patience_s: float) -> Sent:
        """In the order sent. Nothing is sent after `duration_s`; answers may then take `patience_s` more."""
        try:
            for _ in range(self._target.connections):
                self._connect()
            time.sleep(_START_S)
            self._start_s = time.perf_counter()
            self._ends_s = self._start_s + duration_s
            for connection in list(self._open.values()):
                self._send(connection)
            self._loop(self._ends_s + patience_s)
        finally:
            for connection in self._open.values():
                connection.socket.close()
            self._epoll.close()
        return self._sent

    def _loop(self, gives_up_s: float) -> None:
        while self._in_flight and (left_s := gives_up_s - time.perf_counter()) > 0:
            for fd, _ in self._epoll.poll(left_s):
                if (connection := self._open.get(fd)) is not None:
                    self._read(connection)

    def _send(self, connection: Connection) -> None:
        sent, request = self._sent, self._requests[len(self._sent.sent_s) % len(self._requests)]
        connection.request = len(sent.sent_s)
        sent.done_s.append(_NEVER_S)
        sent.answers.append(b"")
        sent.sent_s.append(time.perf_counter() - self._start_s)
        self._in_flight += 1
        try:
            # A few kilobytes on an idle connection: the kernel takes all or the connection is broken.
            is_sent = connection.socket.send(request) == len(request)
        except OSError:
            is_sent = False
        if not is_sent:
            self._replace(connection)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        now_s = time.perf_counter()
        received = connection.received = connection.received + data
        try:
            length = length_of(received)
        except NotAnAnswer:
            length = 0
        if length == len(received) and connection.request >= 0:
            self._take(connection, now_s)
        elif not data or connection.request < 0 or (length is not None and length < len(received)):
            self._replace(connection)  # closed, no answer, more than one, or an answer to nothing

    def _take(self, connection: Connection, now_s: float) -> None:
        self._sent.done_s[connection.request] = now_s - self._start_s
        self._sent.answers[connection.request] = connection.received
        connection.request, connection.received = -1, b""
        self._in_flight -= 1
        if now_s < self._ends_s:
            self._send(connection)

    def _replace(self, connection: Connection) -> None:
        """Its request stays without an answer; a new connection goes on, where there is a server to connect to."""
        self._in_flight -= connection.request >= 0
        del self._open[connection.socket.fileno()]
        connection.socket.close()
        if time.perf_counter() < self._ends_s and (new := self._connect_or_none()) is not None:
            self._send(new)

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
