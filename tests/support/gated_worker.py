"""A worker's wire server and device thread inside the test, over a real socket, with a model that waits for it.

For what depends on the very moment at which the device is busy; bundles and processes are in `inference.py`.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batcher import Batcher
from online.inference.worker.connection import Connection
from online.inference.worker.contract import Refused
from online.inference.worker.execution import DeviceLost, Outcome
from online.inference.worker.warm import Warm
from online.inference.worker.wire_server import RequestCounts, WireServer
from schemas import wire
from schemas.capacity import BatchTime
from schemas.http import ProblemCode
from schemas.manifest import REQUIRED_FILES, InputTensor, Manifest, NumberFeature, Output, OutputSpecification
from schemas.wire import Float32Array, Tensor
from tests.support.inference import eventually
from tests.support.wire_client import WireClient

DIGEST = "0a1b2c3d" * 8
BAD_ROW = -1.0  # the model raises on it
SHORT_ROW = -2.0  # the model gives a row too few
FATAL_ROW = -3.0  # the device is lost


def rows(*values: float) -> list[Tensor]:
    """The one input of the gated model: (n, 1) float32."""
    return [np.array(values, np.float32).reshape(-1, 1)]


class GatedModel:
    """x to 10 x, one batch for each permit. `batches` are the inputs of those begun."""

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self._permits = threading.Semaphore(0)

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        x = np.asarray(tensors[0], np.float32)
        self.batches.append(x[:, 0].tolist())
        self._permits.acquire()
        if FATAL_ROW in x:
            raise DeviceLost("the device fell off the bus")
        if BAD_ROW in x:
            raise ArithmeticError("a bad row")
        return x[1:] if SHORT_ROW in x else 10 * x

    def permit(self, batches: int = 1) -> None:
        self._permits.release(batches)

    async def began(self, batches: int) -> None:
        await eventually(lambda: len(self.batches) >= batches, f"{batches} batches begun, not {self.batches}")


@dataclass
class GatedWorker:
    """`client` is connected; `connect` makes more."""

    model: GatedModel
    server: WireServer
    batcher: Batcher
    address: str
    counts: RequestCounts
    died: list[BaseException] = field(default_factory=list)

    def connect(self) -> contextlib.AbstractAsyncContextManager[WireClient]:
        return WireClient.connect(self.address)


def gated_manifest(max_batch_rows: int) -> Manifest:
    return Manifest(
        name="gated",
        version="1",
        files=dict.fromkeys(REQUIRED_FILES, "0" * 64),
        torch_version="2.13.0",
        created_at="2026-11-29T00:00:00Z",
        features=(NumberFeature(name="x"),),
        inputs=(InputTensor(name="x", dtype="float32", features=("x",)),),
        output=OutputSpecification(outputs=(Output(name="y"),)),
        max_batch_rows=max_batch_rows,
        golden=(),
    )


@contextlib.asynccontextmanager
async def gated_worker(
    max_rows: int = 4,
    max_queued_rows: int = 8,
    max_delay_ms: float = 0.0,
    tau0_ms: float = 0.01,
    alpha_ms: float = 0.0,
) -> AsyncIterator[GatedWorker]:
    loop, model, counts = asyncio.get_running_loop(), GatedModel(), RequestCounts()
    batcher = Batcher(
        1,
        BatchPolicy(max_rows, round(max_delay_ms * 1e6)),
        max_queued_rows,
        BatchTime(tau0_ms, alpha_ms),
        lambda outcome: _to_loop(loop, server, outcome),
    )
    warm = Warm(gated_manifest(max_rows), DIGEST, batcher, max_rows, [], lambda: 0, lambda _: None)
    server = WireServer(warm, wire.hello({"role": "worker"}), lambda: wire.status({"state": "ready"}), counts)
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    worker = GatedWorker(model, server, batcher, f"{host}:{port}", counts)

    def device() -> None:
        try:
            batcher.run(model)
        except DeviceLost as error:
            worker.died.append(error)
            refusal = Refused(ProblemCode.LIVE_UNAVAILABLE, str(error), 1000)
            loop.call_soon_threadsafe(server.refuse_all, refusal)

    thread = threading.Thread(target=device)
    thread.start()
    try:
        yield worker
    finally:
        model.permit(1000)
        batcher.stop()
        await asyncio.to_thread(thread.join, 5.0)
        listener.close()
        await server.close(1.0)
        assert not thread.is_alive()


def _to_loop(loop: asyncio.AbstractEventLoop, server: WireServer, outcome: Outcome) -> None:
    loop.call_soon_threadsafe(server.on_outcome, outcome)
