"""A keep-alive connection of the load generators: at most one request is on it at a time."""

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`connections` are opened before the start; up to `max_connections` as they are needed."""

    host: str
    port: int
    connections: int = 64
    max_connections: int = 4000


class Connection:
    """`request` is the place of the one in flight, or -1; `received` what has come of its answer."""

    __slots__ = ("received", "request", "socket")

    def __init__(self, target: Target) -> None:
        self.socket = socket.create_connection((target.host, target.port), timeout=5.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.request = -1
        self.received = b""
