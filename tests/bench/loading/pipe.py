"""The bare alternative: a prepared file of SET commands through `redis-cli --pipe`."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

_TIMEOUT_S = 300.0
_SAID = re.compile(r"errors: (\d+), replies: (\d+)")


class PipeFailed(Exception):
    """`redis-cli` is missing, or did not load all."""


def client() -> str:
    """The program. Raises PipeFailed where there is none."""
    found = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if found is None:
        raise PipeFailed("no redis-cli: install Debian's package redis-tools")
    return found


def write_commands(path: Path, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """One plain key a pair, in Redis's protocol; returns how many."""
    count = 0
    with path.open("wb") as file:
        for key, value in pairs:
            head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n" % (len(key), key, len(value))
            file.write(head + value + b"\r\n")
            count += 1
    return count


def pipe_s(path: Path, port: int, count: int) -> float:
    """Seconds from the client's start to its end. Raises PipeFailed where not all keys were set."""
    began_s = time.perf_counter()
    with path.open("rb") as file:
        words = [client(), "-h", "127.0.0.1", "-p", str(port), "--pipe"]
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, timeout=_TIMEOUT_S)
    seconds = time.perf_counter() - began_s
    said = _SAID.search(done.stdout)
    if done.returncode or said is None or said.groups() != ("0", str(count)):
        raise PipeFailed(f"redis-cli --pipe: {done.stdout[-300:]}{done.stderr[-300:]}")
    return seconds
