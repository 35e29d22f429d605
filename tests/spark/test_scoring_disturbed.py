"""Scoring that loses a worker, its driver or its disk on the way, and what tasks get that were promised a GPU."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from schemas.bundle import Bundle
from tests.bench.scoring.product import workers
from tests.support.bundles import linear_bundle
from tests.support.own_spark import start
from tests.support.scoring_run import ScoringRun, linear_rows, scoring_run

pytestmark = [pytest.mark.spark, pytest.mark.fault]

ROWS, FILES = 8_000, 8
GPU_SCRIPT = """#!/bin/sh
echo '{"name": "gpu", "addresses": ["3", "5"]}'
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("bundles") / "tiny")


def made(folder: Path, bundle: Bundle, rows: int = ROWS) -> ScoringRun:
    features = linear_rows(rows)
    return scoring_run(folder / "run", bundle, features, list(features), files=FILES)


def environment(run: ScoringRun) -> dict[str, str]:
    # A row at a time, so that there is time to disturb it.
    slow = {"BATCH_SCORE_BATCH_ROWS": "1"}
    return run.environment() | {"BATCH_ALLOWED_BUNDLE_URLS": json.dumps([run.run.bundle_url])} | slow


@contextmanager
def scoring(run: ScoringRun, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    process = start("score", run.run.url, {"spark.master": "local[2,4]", **settings}, environment(run))
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def score(run: ScoringRun) -> None:
    with scoring(run) as process:
        said = process.communicate(timeout=240)
        assert process.returncode == 0, said[1][-3000:]


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline_s = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def has_scored_some(run: ScoringRun) -> bool:
    return len(list(run.folder.glob("_scoring-*/scored-*.arrow"))) >= 2


def check(run: ScoringRun) -> None:
    """Every entity is there once, with what a bare torch call gives."""
    found = run.scores()
    assert len(found) == ROWS == run.report()["rows"]
    np.testing.assert_allclose(list(found.values()), run.bare(list(found)), rtol=1e-5, atol=1e-6)
    assert run.leftovers() == []


def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path, bundle: Bundle) -> None:
    run = made(tmp_path, bundle)
    with scoring(run) as process:
        wait_until(lambda: has_scored_some(run), process)
        workers(process.pid)[0].kill()
        said = process.communicate(timeout=240)
        assert process.returncode == 0, said[1][-3000:]
        assert "Python worker exited unexpectedly" in said[1]
    check(run)


def test_a_driver_that_is_killed_leaves_no_scores_and_the_next_one_clears_up(
    tmp_path: Path, bundle: Bundle
) -> None:
    run = made(tmp_path, bundle)
    with scoring(run) as process:
        wait_until(lambda: has_scored_some(run), process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (run.folder / "scores").exists()
    assert run.run.report("score") is None
    assert run.leftovers() != []
    score(run)
    check(run)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("room_bytes", [200_000, 450_000], ids=["while scoring", "while score files are written"])
def test_a_full_disk_is_said_in_a_line_and_nothing_is_kept(
    tmp_path: Path, small_disk: Path, bundle: Bundle, room_bytes: int
) -> None:
    run = made(tmp_path, bundle)
    shutil.move(run.folder, small_disk / "run")
    (tmp_path / "run").symlink_to(small_disk / "run")
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(4 << 20))
    os.truncate(filler, filler.stat().st_size - room_bytes)
    with scoring(run) as process:
        said = process.communicate(timeout=240)
        assert process.returncode == 1
        assert "failed, and may be tried again: OSError: [Errno 28]" in said[1]
    assert not (run.folder / "scores").exists()
    assert run.run.report("score") is None
    assert run.leftovers() == []
    filler.unlink()
    score(run)
    check(run)


@pytest.fixture
def gpus(tmp_path: Path) -> dict[str, str]:
    """Two executors of a core, each with a GPU of its own."""
    script = tmp_path / "gpus.sh"
    script.write_text(GPU_SCRIPT)
    script.chmod(0o755)
    return {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "1",
        "spark.executor.memory": "512m",
    }


def devices(wanted: str, settings: dict[str, str]) -> list[str]:
    process = start("devices", wanted, settings)
    try:
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err[-3000:]
        found: list[str] = json.loads(out.splitlines()[-1])
        return found
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_task_takes_the_gpu_that_spark_gave_it(gpus: dict[str, str]) -> None:
    found = devices("cuda", gpus | {"spark.task.resource.gpu.amount": "1"})
    assert len(found) == 4
    assert set(found) <= {"cuda:3", "cuda:5"}


def test_a_task_that_was_promised_a_gpu_and_has_none_fails(gpus: dict[str, str]) -> None:
    without = {"spark.master": gpus["spark.master"], "spark.executor.memory": "512m"}
    with pytest.raises(AssertionError, match=r"NoDevice: BATCH_DEVICE=cuda, but Spark gave the task no gpu"):
        devices("cuda", without)
