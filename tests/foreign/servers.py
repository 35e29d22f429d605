"""The test's own server, started and steered; and a routed version of the small model for the tier to serve."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np

from online.api.routes.view import Loaded, ModelView, build_view
from schemas.features import FeatureTransform
from schemas.manifest import GoldenRow, Manifest
from schemas.outputs import calibrate
from schemas.routes import RoutesDocument, Version
from schemas.wire import Tensor
from tests.support.publish_small import small_forward, small_manifest

SERVER = Path(__file__).with_name("oip_server.py")
DIGEST = "c0ffee00" * 8


class OipServer:
    """Use as `with`. `behave` replaces its whole behaviour, and begins to count anew."""

    def __init__(self, **behaviour: object) -> None:
        self._behaviour = behaviour
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=10)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        argv = [sys.executable, str(SERVER), str(self.port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.behave(**self._behaviour)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        self._client.close()

    def stop(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def behave(self, **behaviour: object) -> None:
        self._client.put(f"{self.url}/behaviour", json=behaviour).raise_for_status()

    @property
    def seen(self) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(f"{self.url}/seen").json()
        return told

    def wait_seen(self, condition: Callable[[dict[str, Any]], bool], timeout_s: float = 5.0) -> dict[str, Any]:
        end_s = time.monotonic() + timeout_s
        while not condition(seen := self.seen):
            assert time.monotonic() < end_s, seen
            time.sleep(0.01)
        return seen


def golden_manifest(version: str = "1") -> Manifest:
    """The small model, with golden rows from its own forward."""
    manifest = small_manifest(version=version)
    records = [{"distance": 100.0 * row, "edge": 0.1 * (row % 3), "airline": "DL"} for row in range(5)]
    done = FeatureTransform(manifest).records(records)
    outputs = calibrate(manifest.output, small_forward(done.tensors))
    golden = tuple(
        GoldenRow(record=record, outputs=tuple(row.tolist())) for record, row in zip(records, outputs, strict=True)
    )
    return manifest.model_copy(update={"golden": golden})


def routed(version: str = "1") -> ModelView:
    manifest = golden_manifest(version)
    document = RoutesDocument(
        model="delay",
        epoch=1,
        revision=1,
        stable=version,
        versions={version: Version(ordinal=1, bundle_url="nowhere", bundle_digest=DIGEST, generations=())},
        features=None,
    )
    return build_view(document, {version: Loaded(manifest, FeatureTransform(manifest))})


def some_rows(count: int = 3) -> list[Tensor]:
    numbers = np.linspace(0.1, 3.3, count, dtype=np.float32).reshape(-1, 1)
    places = np.stack([np.arange(count) % 2, np.arange(count) % 4], axis=1).astype(np.int64)
    return [numbers, places]


def bare(tensors: list[Tensor]) -> Any:
    return small_forward(dict(zip(("numbers", "places"), tensors, strict=True)))
