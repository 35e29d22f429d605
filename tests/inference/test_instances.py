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
from online.inference.worker.remote_instance import RemoteInstance
from schemas.bundle import Bundle
from schemas.manifest import InputTensor, NumberFeature, Output, OutputSpecification
from tests.inference.test_node import bare, random_rows
from tests.support.bundles import LICENCE
from tests.support.inference import NodeProcess, address_of, eventually
from tests.support.wire_client import WireClient


def specification(
    name: str, features: tuple[str, ...], outputs: tuple[str, ...], max_batch_rows: int = 8
) -> Specification:
    return Specification(
        name=name,
        version="1",
        created_at="2026-11-29T00:00:00Z",
        features=tuple(NumberFeature(name=feature) for feature in features),
        inputs=(InputTensor(name="x", dtype="float32", features=features),),
        output=OutputSpecification(outputs=tuple(Output(name=output) for output in outputs)),
        max_batch_rows=max_batch_rows,
    )


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


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


def has_torch(pid: int) -> bool:
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


def niceness(pid: int) -> int:
    """Of its main thread, which runs the batches."""
    return os.getpriority(os.PRIO_PROCESS, pid)


async def test_on_cpu_one_instance_is_a_process_too_and_only_that_has_torch(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    with NodeProcess.run(tmp_path, [address_of(bundle)], [bundles_folder], device="cpu") as node:
        (address,) = await node.ready(bundle.digest)
        (worker,) = node.worker_pids
        (instance,) = children(worker)
        assert [has_torch(pid) for pid in (worker, instance)] == [False, True]
        async with WireClient.connect(address) as client:
            tensors = random_rows(3)
            found = (await client.ask(bundle.digest, tensors)).outputs
        np.testing.assert_allclose(found, bare(bundle, tensors), rtol=1e-5, atol=1e-6)
        assert niceness(instance) == niceness(worker), "it loads at low priority and serves at the worker's own"
        os.kill(worker, signal.SIGKILL)
        await eventually(lambda: instance not in psutil.pids(), "the end of the dead worker's instance")


def test_batches_larger_than_a_socket_holds_are_sent_while_the_process_works(tmp_path: Path) -> None:
    """Neither end waits for the other to make room, however much is on its way in both directions."""
    names = tuple(f"x{place}" for place in range(2048))
    bundle = build_bundle(
        tmp_path / "same",
        Same(),
        specification("same", names, outputs=names, max_batch_rows=512),
        {name: [0.0, 1.0, 2.0] for name in names},
        LICENCE,
    )
    argv = [f"--url={bundle.folder}", f"--digest={bundle.digest}", f"--cache={tmp_path}"]
    instance = RemoteInstance(bundle.folder, argv, 1)
    try:
        instance.wait_until_loaded()
        batches = [np.full((512, len(names)), number, np.float32) for number in range(4)]  # 4 MiB each
        sent = [instance.launch([rows]) for rows in batches]
        instance.serve()
        for launched, rows in reversed(list(zip(sent, batches, strict=True))):
            np.testing.assert_array_equal(launched(), rows)
    finally:
        instance.close()


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


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


class Wide(torch.nn.Module):
    """2 MiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(2, 256 * 512), torch.nn.Linear(256 * 512, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x)))


async def test_a_version_that_does_not_fit_is_refused_with_the_figures(tmp_path: Path) -> None:
    names = ("a", "b")
    columns = {name: [0.0, 1.0, 2.0] for name in names}
    specified = specification("wide", names, outputs=("y",))
    bundle = build_bundle(tmp_path / "wide", Wide(), specified, columns, LICENCE)
    with NodeProcess.run(tmp_path / "cache", [address_of(bundle)], [tmp_path], memory_limit_mib=4) as node:
        async with node.directory() as directory:
            await directory.until(lambda: directory.statuses[-1]["versions"][0]["state"] == "failed", 60.0)
            reason = directory.statuses[-1]["versions"][0]["reason"]
        (version,) = (await node.get("/readyz")).json()["versions"]
    assert version["reason"] == reason
    assert "2.0 MiB of weights and 8.0 MiB of activations at 8 rows" in reason
    assert "INFERENCE_MEMORY_LIMIT_MIB) is 4 MiB" in reason
