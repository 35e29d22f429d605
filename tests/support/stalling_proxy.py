"""A TCP proxy before a real server that stops passing bytes on after a while: a load that hangs half-way."""

import socket
import threading
from contextlib import suppress
from typing import Self

_BLOCK = 256


class StallingProxy:
    """Use as `with`. Passes on `pass_bytes` of what all clients send together, then holds the rest."""

    def __init__(self, target: tuple[str, int], pass_bytes: int) -> None:
        self.stalled = threading.Event()
        self._target, self._left = target, pass_bytes
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listening]
        self.port = int(self._listening.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, is_counted: bool) -> None:
        with suppress(OSError):
            while block := source.recv(_BLOCK):
                if is_counted and not self._may_pass(len(block)):
                    self.stalled.set()
                    return
                sink.sendall(block)

    def _may_pass(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            return self._left >= 0
