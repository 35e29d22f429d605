"""The API as its user starts it: `python -m online.api` in a process group of its own, over real sockets."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.support.redis_server import free_port

ROOT = Path(__file__).parents[2]
_START_S = 30.0


def wait_for(condition: Callable[[], Any], timeout_s: float = 10.0, what: str = "condition") -> Any:
    """The first true value of `condition`; fails when it takes too long."""
    until_s = time.monotonic() + timeout_s
    while True:
        if found := condition():
            return found
        assert time.monotonic() < until_s, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


class ApiProcess:
    """Use as `with`; returns once `/healthz` answers. `client` sends paths as they are given.

    Args:
        settings: `API_*` without the prefix; values that are no text become JSON.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.state, self.data = folder / "api-state", folder / "data"
        self._settings: dict[str, object] = {
            "port": str(self.port),
            "workers": "1",
            "state_dir": str(self.state),
            "data_url": str(self.data),
            "allowed_bundle_urls": [str(folder)],
            "nodes": [],
            "drain_delay_s": "0",
            # A busy test machine stalls for longer than a look-up may take in service.
            "lookup_budget_ms": "250",
            # Hits that are computed again by chance would be counted with those that a test asks for.
            "parity_share": "0",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.base, timeout=10)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.client.close()
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def environment(self) -> Mapping[str, str]:
        own = {
            f"API_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in self._settings.items()
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("API_")}
        return {**kept, **own, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}

    def start(self) -> None:
        with (self.folder / "api.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "online.api"],
                env=self.environment(),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            wait_for(self._is_up, _START_S, f"the API; its log ends: {self.log_tail()}")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> int | None:
        """SIGTERM, as a supervisor would; the exit status."""
        if self._process is None:
            return None
        self._process.terminate()
        try:
            return self._process.wait(15)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL for every process of it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def workers(self) -> list[int]:
        """Process ids of the workers, without Python's resource tracker."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        commands = {
            pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found if Path(f"/proc/{pid}").exists()
        }
        return [int(pid) for pid, words in commands.items() if b"spawn_main" in words]

    def log_tail(self) -> str:
        path = self.folder / "api.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def wait_ready(self) -> None:
        wait_for(lambda: self._status("/readyz") == 200, 15, "readiness")

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the API has ended: {self.log_tail()}"
        return self._status("/healthz") == 200

    def _status(self, path: str) -> int:
        try:
            return self.client.get(path).status_code
        except httpx.TransportError:
            return 0
