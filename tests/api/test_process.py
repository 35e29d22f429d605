"""The process as its operator meets it: settings, start, death of a worker, SIGTERM, a killed parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.support.api_process import ROOT, ApiProcess, wait_for
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.request_log_reading import log_rows, parquet_rows, read_log
from tests.support.wire_worker import Served, WireNode, served


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "online.api", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_lists_the_settings_without_secrets() -> None:
    text = run("--help").stdout
    assert "API_LOOKUP_BUDGET_MS (default: 20.0)" in text
    assert "API_REDIS_URL (default: secret)" in text
    assert 'API_MODELS (default: ["delay"])' in text


def test_unknown_and_bad_settings_are_refused() -> None:
    found = run(API_WORKRES="3")
    assert (found.returncode, "did you mean API_WORKERS?" in found.stderr) == (2, True)
    secret = run(API_REDIS_URL="redis://:hunter2@x", API_MODELS='["Bad Name"]')
    assert secret.returncode == 2
    assert "API_MODELS" in secret.stderr
    assert "hunter2" not in secret.stderr


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    with ApiProcess(tmp_path, redis_url="redis://:hunter2@127.0.0.1:1/0", log_level="DEBUG") as api:
        wait_for(lambda: "Redis cannot be reached" in api.log_tail())
        assert "hunter2" not in api.log_tail()


@pytest.fixture
def running(redis_url: str, tmp_path: Path) -> Iterator[tuple[ApiProcess, Served]]:
    small = Small(tmp_path, small_manifest(), {"e1": {"distance": 1.0}, "e2": {"distance": 2.0}}, ["e1"])
    worker = served(small.raw, small_forward)
    with Redis.from_url(redis_url) as redis:
        small.publish(redis)
    with WireNode(worker) as node:
        api = ApiProcess(tmp_path, redis_url=redis_url, nodes=[node.address], workers="2", drain_delay_s="0.5")
        with api:
            api.wait_ready()
            yield api, worker


def ask(api: ApiProcess, entity: str, request_id: str) -> httpx.Response:
    """On a connection of its own, so that the workers share them."""
    return httpx.get(
        f"{api.base}/v1/models/delay/predictions/{entity}", headers={"X-Request-Id": request_id}, timeout=10
    )


def test_a_killed_worker_is_replaced_and_loses_a_second(running: tuple[ApiProcess, Served]) -> None:
    """What it had flushed is taken over by its successor; no gauge of a dead process is left."""
    api, _ = running
    ids = {f"kill-{place}" for place in range(40)}
    for request_id in ids:
        assert ask(api, "e1", request_id).status_code == 200
    read_log(api, "delay", lambda rows: ids <= {row["request_id"] for row in rows})
    for victim in api.workers():
        os.kill(victim, signal.SIGKILL)
    old = set(api.workers())

    def stored() -> bool:
        return ids <= {row["request_id"] for row in parquet_rows(api.data, "delay")}

    wait_for(lambda: len(set(api.workers()) - old) >= 0 and stored(), 30, "the dead workers' streams as Parquet")
    wait_for(lambda: len(api.workers()) == 2, 20, "both workers")
    wait_for(lambda: ask(api, "e1", "after").status_code == 200)
    rows = log_rows(api, "delay")
    assert len([row for row in rows if row["request_id"] in ids]) == len(ids)
    text = httpx.get(f"{api.base}/metrics", timeout=10).text
    assert 'pid="' not in text


def test_sigterm_answers_what_is_in_flight_and_stores_the_log(running: tuple[ApiProcess, Served]) -> None:
    api, worker = running
    worker.delay_s = 1.0
    ids = {f"drain-{place}" for place in range(6)}
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, api, "e2", request_id) for request_id in ids]
        wait_for(lambda: worker.requests, what="work in flight")
        for pid in api.workers():
            os.kill(pid, signal.SIGTERM)
        statuses = [future.result().status_code for future in asked]
    assert set(statuses) == {200}
    api.stop()
    assert ids <= {row["request_id"] for row in parquet_rows(api.data, "delay")}
    assert list((api.state / "log").glob("*.arrows")) == []


def test_readiness_says_no_before_the_sockets_close(running: tuple[ApiProcess, Served]) -> None:
    api, _ = running
    assert api.client.get("/readyz").status_code == 200
    for pid in api.workers():
        os.kill(pid, signal.SIGTERM)
    answer = wait_for(lambda: (a := api.client.get("/readyz")).status_code == 503 and a, what="not ready")
    assert answer.json()["draining"] is True


def test_workers_end_with_a_killed_parent(running: tuple[ApiProcess, Served]) -> None:
    """Else they would hold the port against the next start."""
    api, _ = running
    workers = api.workers()
    os.kill(api.pid, signal.SIGKILL)

    def is_gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except OSError:
            return True

    wait_for(lambda: all(is_gone(pid) for pid in workers), what="the workers' end")
    api.kill()
    api.start()
    wait_for(lambda: ask(api, "e1", "again").status_code == 200)


def test_two_cannot_share_a_state_folder(running: tuple[ApiProcess, Served]) -> None:
    api, _ = running
    found = run(API_STATE_DIR=str(api.state), API_PORT="0")
    assert (found.returncode, "is used by another API" in found.stderr) == (1, True)


def test_importing_loads_nothing_heavy() -> None:
    """The static check does not see what third-party packages load."""
    for module in ("online.api.__main__", "online.api.app"):
        heavy = "('torch', 'pyspark', 'pyarrow', 'pandas', 'opentelemetry.exporter')"
        code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert found.stdout.strip() == "[]", found.stderr
