"""The real inference node as a process of its own, on free ports, for tests."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import orjson

from schemas.bundle import Bundle
from tests.support.wire_client import Document, WireClient

ROOT = Path(__file__).resolve().parents[2]
_START_S = 60.0


def address_of(bundle: Bundle) -> str:
    """As `INFERENCE_BUNDLES` takes it."""
    return f"{bundle.folder}@{bundle.digest}"


async def eventually(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> None:
    """Waits until the condition holds, which no frame announces."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.02)


class NodeProcess:
    """Use `run`. `logs` are its records and its workers'."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.logs: list[Document] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wire_address = ""
        self.http_url = ""
        self.grpc_address = ""

    @classmethod
    @contextlib.contextmanager
    def run(
        cls, cache: Path, bundles: Sequence[str], allowed: Sequence[Path | str], **settings: object
    ) -> Iterator[Self]:
        """Settings by their names in lower case; the node is killed at the end where it has not ended."""
        values = {
            "bundles": list(bundles),
            "allowed_bundle_urls": [str(prefix) for prefix in allowed],
            "cache": cache,
            "wire_port": 0,
            "http_port": 0,
            "grpc_port": 0,
            "threads": 1,
            "restart_pause_s": 0.05,
            **settings,
        }
        environment = {key: value for key, value in os.environ.items() if not key.startswith("INFERENCE_")}
        for name, value in values.items():
            text = orjson.dumps(value).decode() if isinstance(value, list) else str(value)
            environment[f"INFERENCE_{name.upper()}"] = text
        process = subprocess.Popen(
            [sys.executable, "-m", "online.inference"], cwd=ROOT, env=environment, stderr=subprocess.PIPE
        )
        node = cls(process)
        try:
            node._listening.wait(_START_S)
            assert node.http_url, f"the node did not start: {node.logs}"
            yield node
        finally:
            process.kill()
            process.wait()
            # Workers hold the pipe's other end; it closes when the last of them has ended.
            node._reader.join(10.0)
            assert not node._reader.is_alive(), "a worker outlived its node"
            assert process.stderr is not None
            process.stderr.close()

    @property
    def worker_pids(self) -> list[int]:
        """Children of the node, from the system's own table."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in task.read_text().split()]

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def wait(self, timeout_s: float = 20.0) -> int:
        return await asyncio.to_thread(self.process.wait, timeout_s)

    @contextlib.asynccontextmanager
    async def directory(self) -> AsyncIterator[WireClient]:
        async with WireClient.connect(self.wire_address) as client:
            yield client

    async def ready(self, *digests: str, timeout_s: float = _START_S) -> list[str]:
        """The addresses of these versions, once they are all ready."""
        async with self.directory() as client:
            await client.until(lambda: all(self._is_ready(client, digest) for digest in digests), timeout_s)
            return [str(version_of(client, digest)["address"]) for digest in digests]

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get(f"{self.http_url}{path}")

    @staticmethod
    def _is_ready(client: WireClient, digest: str) -> bool:
        return bool(version_of(client, digest)["state"] == "ready")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                record = {"message": line.decode("utf-8", "replace")}
            self.logs.append(record)
            if record["message"] == "listening":
                self.wire_address = record["wire"]
                self.http_url = f"http://127.0.0.1:{record['http_port']}"
                self.grpc_address = f"127.0.0.1:{record['grpc_port']}"
                self._listening.set()
        self._listening.set()  # it has ended


def version_of(client: WireClient, digest: str) -> Document:
    """The newest entry of a version in the directory."""
    return next(entry for entry in client.statuses[-1]["versions"] if entry["digest"] == digest)
