"""Servers of others on the same emulated device, started from an environment of their own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from infra.local.others import PEERS
from tests.bench.live.asking import Server, request_body
from tests.support.api_process import ROOT, wait_for
from tests.support.redis_server import free_port

_START_S = 30.0
_GRACE_S = 5.0


@dataclass(frozen=True)
class Peer:
    """A script in `tests/bench/peers` that serves `path` on the port it is given."""

    name: str
    path: str

    @property
    def script(self) -> Path:
        return ROOT / "tests" / "bench" / "peers" / f"{self.name}_server.py"


ALL = (Peer("mosec", "/inference"), Peer("litserve", "/predict"))


def is_set_up() -> bool:
    return PEERS.is_current()


@contextmanager
def serving(peer: Peer, folder: Path) -> Iterator[Server]:
    """Yields once it has answered. Raises AssertionError where it does not, with the end of its log."""
    server = Server("127.0.0.1", free_port(), peer.path)
    words = [str(PEERS.python), str(peer.script), "--port", str(server.port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    log = folder / f"{peer.name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_for(lambda: _answers(server), _START_S, f"{peer.name} answers")
        yield server
    except AssertionError as error:
        raise AssertionError(f"{error}; its log ends: {log.read_text(errors='replace')[-2000:]}") from None
    finally:
        _end(process)


def _answers(server: Server) -> bool:
    json = {"Content-Type": "application/json"}
    url = f"http://{server.host}:{server.port}{server.path}"
    try:
        return httpx.post(url, content=request_body(0), headers=json).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The whole group: these servers are several processes."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
