"""How a node ends: drained by SIGTERM with every request answered, or killed without leaving a worker behind."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from schemas.bundle import Bundle
from tests.inference.test_node import random_rows
from tests.support.inference import NodeProcess, address_of, eventually, version_of
from tests.support.wire_client import Failed, WireClient


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.fault
async def test_sigterm_answers_what_is_queued_and_then_ends(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    sockets = tmp_path / "s"
    with NodeProcess.run(
        tmp_path / "cache",
        [address_of(bundle)],
        [bundles_folder],
        device="emulated:100,1",
        max_batch_rows=4,
        unix_sockets=sockets,
        drain_s=10,
    ) as node:
        (address,) = await node.ready(bundle.digest)
        assert address == str(sockets / f"{bundle.digest[:16]}.sock")
        async with WireClient.connect(address) as client, node.directory() as directory:
            futures = [client.start(bundle.digest, random_rows(1, seed))[1] for seed in range(20)]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            node.terminate()
            await directory.until(lambda: directory.statuses[-1]["draining"])
            assert (await node.get("/readyz")).status_code == 503
            assert (await node.get("/healthz")).status_code == 200
            await directory.until(lambda: directory.statuses[-1]["versions"][0]["state"] == "draining")
            results = await asyncio.gather(*futures)
            assert all(np.isfinite(result.outputs).all() for result in results)
        assert await node.wait() == 0
        assert list(sockets.iterdir()) == []


@pytest.mark.fault
async def test_a_killed_node_leaves_no_worker(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle, other_bundle: Bundle
) -> None:
    with NodeProcess.run(
        tmp_path / "cache", [address_of(bundle), address_of(other_bundle)], [bundles_folder]
    ) as node:
        (address,) = await node.ready(bundle.digest)
        workers = node.worker_pids
        assert len(workers) == 2
        async with WireClient.connect(address) as client:
            assert (await client.ask(bundle.digest, random_rows(1))).batch_rows == 1  # on the device `cpu`
            os.kill(node.process.pid, signal.SIGKILL)
            await eventually(lambda: not any(map(is_running, workers)), "the workers have ended", timeout_s=10)


async def test_sigterm_while_loading_ends_at_once(tmp_path: Path, bundles_folder: Path, bundle: Bundle) -> None:
    with NodeProcess.run(tmp_path / "cache", [address_of(bundle)], [bundles_folder]) as node:
        await eventually(lambda: bool(node.worker_pids), "a worker has been started")
        assert (await node.get("/readyz")).status_code == 503
        node.terminate()
        assert await node.wait() == 0


async def test_a_node_without_bundles_is_alive_and_not_ready(tmp_path: Path) -> None:
    with NodeProcess.run(tmp_path / "cache", [], []) as node:
        answer = await node.get("/readyz")
        assert answer.status_code == 503
        assert "INFERENCE_BUNDLES" in answer.json()["reason"]
        assert (await node.get("/healthz")).status_code == 200


@pytest.mark.fault
async def test_a_worker_that_stops_answering_is_unready_and_then_replaced(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    with NodeProcess.run(tmp_path / "cache", [address_of(bundle)], [bundles_folder], silent_s=8) as node:
        await node.ready(bundle.digest)
        (stopped,) = node.worker_pids
        os.kill(stopped, signal.SIGSTOP)
        async with node.directory() as directory:
            await directory.until(lambda: directory.statuses[-1]["versions"][0]["state"] == "failed")
            assert (await node.get("/readyz")).status_code == 503
            await eventually(lambda: not is_running(stopped), "the stopped worker was killed")
        await node.ready(bundle.digest)


@pytest.mark.fault
async def test_a_worker_whose_batch_never_ends_is_replaced_and_the_deadline_was_kept(
    tmp_path: Path, bundles_folder: Path, bundle: Bundle
) -> None:
    with NodeProcess.run(
        tmp_path / "cache",
        [address_of(bundle)],
        [bundles_folder],
        device="emulated:4000,0",
        max_batch_rows=1,
        stall_s=1,
    ) as node:
        (address,) = await node.ready(bundle.digest)
        async with WireClient.connect(address) as client, node.directory() as directory:
            with pytest.raises(Failed, match="deadline_exceeded"):
                await client.ask(bundle.digest, random_rows(1), deadline_s=0.1)
            await directory.until(
                lambda: "did not end within 1 s" in version_of(directory, bundle.digest)["reason"]
            )
        await node.ready(bundle.digest)
