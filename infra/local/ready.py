"""Whether a process answers: one try each, never raises for a process that is not there yet."""

import http.client
import socket
from dataclasses import dataclass

PROBE_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class HttpProbe:
    """Ready when `GET path` answers 200."""

    host: str
    port: int
    path: str

    def is_ready(self) -> bool:
        return self.status() == http.client.OK

    def status(self) -> int:
        """The HTTP status, or 0 where nothing answers."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PROBE_TIMEOUT_S)
        try:
            connection.request("GET", self.path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()


@dataclass(frozen=True)
class PingProbe:
    """Ready when the Redis server says PONG; one that still reads its AOF says LOADING."""

    host: str
    port: int

    def is_ready(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=PROBE_TIMEOUT_S) as link:
                link.sendall(b"PING\r\n")
                return link.recv(64).startswith(b"+PONG")
        except OSError:
            return False


Probe = HttpProbe | PingProbe
