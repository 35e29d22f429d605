"""Several instances of one version: one queue, each its own device thread, on CPU each its own process."""

import asyncio
import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from batch_scoring.bundle.build import Specification, build_bundle
from schemas.bundle import Bundle
from schemas.manifest import InputTensor, NumberFeature, Output, OutputSpecification
from tests.inference.test_node import bare, random_rows
from tests.support.bundles import LICENCE
from tests.support.inference import NodeProcess, address_of, eventually
from tests.support.wire_client import WireClient


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.fault
async def test_on_cpu_each_is_a_process_and_one_that_dies_is_replaced(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    with NodeProcess.run(
        tmp_path, [address_of(bundle)], [bundles_folder], device="cpu", instances=2, threads=2, max_batch_rows=4
    ) as node:
        (address,) = await node.ready(bundle.digest)
        (worker,) = node.worker_pids
        instances = children(worker)
        assert len(instances) == 2
        tensors = random_rows(90, seed=5)
        async with WireClient.connect(address) as client:
            asked = [client.ask(bundle.digest, [t[n : n + 3] for t in tensors]) for n in range(0, 90, 3)]
            found = np.concatenate([result.outputs for result in await asyncio.gather(*asked)])
        np.testing.assert_allclose(found, bare(bundle, tensors), rtol=1e-5, atol=1e-6)
        threads = [len(os.listdir(f"/proc/{pid}/task")) for pid in instances]
        assert max(threads) <= 4, "torch of each instance has its share of the threads, not all"

        os.kill(instances[0], signal.SIGKILL)
        async with WireClient.connect(address) as client:
            await asyncio.gather(
                *(client.ask(bundle.digest, random_rows(1)) for _ in range(20)), return_exceptions=True
            )
        await eventually(lambda: node.worker_pids not in ([worker], []), "another worker")
        (address,) = await node.ready(bundle.digest)
        async with WireClient.connect(address) as client:
            assert (await client.ask(bundle.digest, random_rows(2))).outputs.shape[0] == 2
        await eventually(lambda: instances[1] not in psutil.pids(), "the end of the dead worker's other instance")


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.long
async def test_batches_of_instances_overlap(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle, instances: int
) -> None:
    with NodeProcess.run(
        tmp_path,
        [address_of(bundle)],
        [bundles_folder],
        device="emulated:50,0",
        instances=instances,
        max_batch_rows=1,
    ) as node:
        (address,) = await node.ready(bundle.digest)
        async with WireClient.connect(address) as client:
            began = time.monotonic()
            await asyncio.gather(*(client.ask(bundle.digest, random_rows(1, seed)) for seed in range(12)))
            took_s = time.monotonic() - began
    assert took_s >= 12 * 0.05 / instances
    if instances == 2:
        assert took_s < 12 * 0.05, "the two never worked at the same time"


class Wide(torch.nn.Module):
    """2 MiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(2, 256 * 512), torch.nn.Linear(256 * 512, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x)))


async def test_a_version_that_does_not_fit_is_refused_with_the_figures(tmp_path: Path) -> None:
    names = ("a", "b")
    specification = Specification(
        name="wide",
        version="1",
        created_at="2026-11-29T00:00:00Z",
        features=tuple(NumberFeature(name=name) for name in names),
        inputs=(InputTensor(name="x", dtype="float32", features=names),),
        output=OutputSpecification(outputs=(Output(name="y"),)),
        max_batch_rows=8,
    )
    bundle = build_bundle(tmp_path / "wide", Wide(), specification, {n: [0.0, 1.0, 2.0] for n in names}, LICENCE)
    with NodeProcess.run(tmp_path / "cache", [address_of(bundle)], [tmp_path], memory_limit_mib=4) as node:
        async with node.directory() as directory:
            await directory.until(lambda: directory.statuses[-1]["versions"][0]["state"] == "failed", 60.0)
            reason = directory.statuses[-1]["versions"][0]["reason"]
        (version,) = (await node.get("/readyz")).json()["versions"]
    assert version["reason"] == reason
    assert "2.0 MiB of weights and 8.0 MiB of activations at 8 rows" in reason
    assert "INFERENCE_MEMORY_LIMIT_MIB) is 4 MiB" in reason
