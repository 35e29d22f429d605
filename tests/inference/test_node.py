"""The node and its workers as processes, with real bundles: what they answer, say, and survive."""

import asyncio
import os
import signal

import numpy as np
import pytest

from runtime.program import load_program
from schemas.bundle import Bundle
from schemas.capacity import fit_batch_time
from schemas.wire import Float32Array, Result, Tensor
from tests.inference.conftest import ALPHA_MS, MAX_BATCH_ROWS, MAX_QUEUED_ROWS, TAU0_MS, WRONG_DIGEST
from tests.support.inference import NodeProcess, eventually, version_of
from tests.support.wire_client import Failed, WireClient


def random_rows(rows: int, seed: int = 0) -> list[Tensor]:
    generator = np.random.default_rng(seed)
    return [
        generator.normal(size=(rows, 2)).astype(np.float32),
        generator.integers(0, 4, size=(rows, 1), dtype=np.int64),
    ]


def bare(bundle: Bundle, tensors: list[Tensor]) -> Float32Array:
    """What the program alone gives, 50 rows at a time."""
    program = load_program(bundle.folder, bundle.manifest)
    chunks = [slice(row, row + 50) for row in range(0, len(tensors[0]), 50)]
    return np.concatenate([program({"numbers": tensors[0][c], "airline": tensors[1][c]}) for c in chunks])


async def test_many_requests_at_once_get_what_the_bare_program_gives(node: NodeProcess, bundle: Bundle) -> None:
    (address,) = await node.ready(bundle.digest)
    tensors = random_rows(200, seed=3)
    expected = bare(bundle, tensors)

    async def ask_in_turn(client: WireClient, first: int) -> list[Result]:
        # 50 clients in a closed loop: more at a time than a batch holds, fewer than the queue does.
        rows = range(first, 200, 50)
        return [await client.ask(bundle.digest, [t[row : row + 1] for t in tensors]) for row in rows]

    async with WireClient.connect(address) as one, WireClient.connect(address) as two:
        found = await asyncio.gather(*(ask_in_turn(one if n % 2 else two, n) for n in range(50)))
    for first, results in enumerate(found):
        for turn, result in enumerate(results):
            np.testing.assert_allclose(result.outputs[0], expected[first + 50 * turn], rtol=1e-5, atol=1e-6)
    sizes = [result.batch_rows for results in found for result in results]
    assert max(sizes) == MAX_BATCH_ROWS
    times_ms = [result.execute_us / 1e3 for results in found for result in results]
    assert min(times_ms) >= TAU0_MS + ALPHA_MS  # the emulated device is never faster than it says


async def test_a_request_larger_than_a_batch_or_the_queue_is_split_and_joined(
    node: NodeProcess, bundle: Bundle
) -> None:
    (address,) = await node.ready(bundle.digest)
    tensors = random_rows(MAX_QUEUED_ROWS + 5)
    async with WireClient.connect(address) as client:
        result = await client.ask(bundle.digest, tensors)
    np.testing.assert_allclose(result.outputs, bare(bundle, tensors), rtol=1e-5, atol=1e-6)
    assert result.batch_rows == MAX_BATCH_ROWS


async def test_a_row_the_model_cannot_take_fails_alone(node: NodeProcess, bundle: Bundle) -> None:
    (address,) = await node.ready(bundle.digest)
    tensors = random_rows(8)
    tensors[1][3] = 99  # no such category: the program raises
    async with WireClient.connect(address) as client:
        futures = [client.start(bundle.digest, [t[row : row + 1] for t in tensors])[1] for row in range(8)]
        answers = await asyncio.gather(*futures, return_exceptions=True)
    assert [row for row, answer in enumerate(answers) if isinstance(answer, Failed)] == [3]
    assert isinstance(answers[3], Failed)
    assert answers[3].code == "model_error"


async def test_a_queue_overrun_is_refused_at_once_and_what_was_queued_is_answered(
    node: NodeProcess, bundle: Bundle
) -> None:
    (address,) = await node.ready(bundle.digest)
    async with WireClient.connect(address) as client:
        futures = [client.start(bundle.digest, random_rows(8))[1] for _ in range(40)]
        answers = await asyncio.gather(*futures, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, Failed)]
    assert {answer.code for answer in refused} == {"overloaded"}
    assert all(answer.retry_after_ms > TAU0_MS for answer in refused)
    assert len(answers) - len(refused) >= MAX_QUEUED_ROWS // 8


async def test_the_directory_says_what_is_served_where(node: NodeProcess, bundle: Bundle) -> None:
    (address,) = await node.ready(bundle.digest)
    async with node.directory() as client:
        assert client.hello["role"] == "node"
        status = client.statuses[-1]
        assert (status["node"], status["draining"]) == ("replica-1", False)
        entry = version_of(client, bundle.digest)
        assert entry["tau0_ms"] == pytest.approx(TAU0_MS, rel=0.2)
        assert entry["alpha_ms"] == pytest.approx(ALPHA_MS, rel=0.5)
        del entry["tau0_ms"], entry["alpha_ms"]
        assert entry == {
            "model": "tiny",
            "version": "1",
            "digest": bundle.digest,
            "state": "ready",
            "address": address,
            "reason": "",
            "device": f"emulated:{TAU0_MS},{ALPHA_MS}",
            "max_batch_rows": MAX_BATCH_ROWS,
        }
        seen = len(client.statuses)
        await client.until(lambda: len(client.statuses) > seen, timeout_s=5)  # each second
    async with WireClient.connect(address) as worker:
        assert worker.hello["inputs"] == [
            {"name": "numbers", "dtype": "float32", "width": 2},
            {"name": "airline", "dtype": "int64", "width": 1},
        ]
        assert worker.hello["outputs"] == ["late", "minutes"]
        assert worker.hello["digest"] == bundle.digest
        assert worker.statuses[-1]["state"] == "ready"


async def test_a_refused_bundle_says_why_and_others_serve(node: NodeProcess, bundle: Bundle) -> None:
    await node.ready(bundle.digest)
    async with node.directory() as client:
        await client.until(lambda: version_of(client, WRONG_DIGEST)["state"] == "failed")
        entry = version_of(client, WRONG_DIGEST)
        assert f"has digest {bundle.digest}, not the expected {WRONG_DIGEST}" in entry["reason"]
        assert entry["address"] is None
    answer = await node.get("/readyz")
    assert answer.status_code == 200
    told = {entry["digest"]: entry["state"] for entry in answer.json()["versions"]}
    assert (told[bundle.digest], told[WRONG_DIGEST]) == ("ready", "failed")


async def test_http_tells_health_profile_and_metrics(node: NodeProcess, bundle: Bundle) -> None:
    (address,) = await node.ready(bundle.digest)
    async with WireClient.connect(address) as client:
        await client.ask(bundle.digest, random_rows(2))
    assert (await node.get("/healthz")).json() == {"status": "alive"}
    profile = (await node.get("/v1/profile")).json()
    assert profile["emulated"] is True
    version = next(entry for entry in profile["versions"] if entry["digest"] == bundle.digest)
    assert [point["rows"] for point in version["measured"]] == [1, 2, 4, 8, 16]
    assert version["measured"][-1]["batch_ms"] >= TAU0_MS + 16 * ALPHA_MS
    fit = fit_batch_time(*zip(*[(point["rows"], point["batch_ms"]) for point in version["measured"]], strict=True))
    assert (version["tau0_ms"], version["alpha_ms"]) == (fit.tau0_ms, fit.alpha_ms), "of what was measured"

    name = 'hotset_inference_rows_total{model="tiny",version="1"}'
    lines: list[str] = []
    async with asyncio.timeout(10):  # reports come each second
        while not any(line.startswith(name) and float(line.split()[-1]) >= 2 for line in lines):
            lines = (await node.get("/metrics")).text.splitlines()
    assert any(line.startswith('hotset_inference_ready{model="tiny",version="1"} 1.0') for line in lines)
    assert any(line.startswith('hotset_inference_loads_total{model="unknown"') for line in lines)


async def test_a_killed_worker_starts_again_and_the_other_version_serves_on(
    node: NodeProcess, bundle: Bundle, other_bundle: Bundle
) -> None:
    address, victim_address = await node.ready(bundle.digest, other_bundle.digest)
    victims = [pid for pid in node.worker_pids if listens_on(pid, victim_address)]
    async with WireClient.connect(address) as client, WireClient.connect(victim_address) as victim:
        unanswered = victim.start(other_bundle.digest, random_rows(1))[1]
        os.kill(victims[0], signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await unanswered
        await eventually(victim.is_closed.is_set, "the victim's connection is closed")
        served = 0
        async with node.directory() as directory:
            await directory.until(lambda: version_of(directory, other_bundle.digest)["state"] != "ready")
            while version_of(directory, other_bundle.digest)["state"] != "ready":
                await client.ask(bundle.digest, random_rows(1), deadline_s=5.0)
                served += 1
            new_address = version_of(directory, other_bundle.digest)["address"]
    assert served > 0
    tensors = random_rows(3)
    async with WireClient.connect(new_address) as again:
        result = await again.ask(other_bundle.digest, tensors)
    np.testing.assert_allclose(result.outputs, bare(other_bundle, tensors), rtol=1e-5, atol=1e-6)
    metrics = (await node.get("/metrics")).text
    assert 'hotset_inference_restarts_total{model="tiny",version="2"} 1.0' in metrics
    assert 'hotset_inference_restarts_total{model="tiny",version="1"} 0.0' in metrics


def listens_on(pid: int, address: str) -> bool:
    """Whether a socket that listens on the port is one of the process's."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    with open("/proc/net/tcp") as table:
        fields = [line.split() for line in table.readlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in fields if row[1].endswith(port) and row[3] == "0A"}
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return any(link in inodes for link in links)
