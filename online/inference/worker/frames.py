"""Whole frames of the wire over a blocking socket: between a worker and the processes of its instances."""

import socket

from schemas import wire

_READ_BYTES = 1 << 20


class Frames:
    """One end. One thread may send while another receives."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._reader = wire.FrameReader()
        self._ready: list[tuple[wire.FrameType, memoryview]] = []

    def send(self, frame: bytes) -> None:
        """Raises OSError where the peer has closed its end."""
        self._peer.sendall(frame)

    def receive(self) -> tuple[wire.FrameType, memoryview] | None:
        """None once the peer has closed its end."""
        while not self._ready:
            if not (data := self._peer.recv(_READ_BYTES)):
                return None
            self._ready = self._reader.feed(data)
        return self._ready.pop(0)

    @property
    def has_whole(self) -> bool:
        """Whether a frame has been read that nobody has received yet."""
        return bool(self._ready)
