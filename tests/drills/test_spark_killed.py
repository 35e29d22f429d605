"""Processes of Spark are killed in the middle of publishing, by the very job that a night submits."""

import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from batch_scoring.priority import DRIVER_NICE
from tests.drills.cluster import Submitted
from tests.drills.standalone import standalone
from tests.drills.world import World
from tests.support.api_process import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.fault]

JOB = "publishing/publish_job.py"
POINT = "publish.half"
# A task that takes longer than the others is begun a second time on the other executor.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def submitted(
    world: World, url: str, action: str, folder: Path, more: Mapping[str, str] | None = None
) -> Submitted:
    armed = {**world.environment, "BATCH_FAIL_POINT": f"{POINT}:{action}:{folder}"}
    return Submitted(JOB, url, armed, folder, more)


def test_a_worker_is_killed_and_its_task_runs_again(world: World, tmp_path: Path) -> None:
    before = world.live()
    run, number = world.night()
    with submitted(world, run.url, "kill", tmp_path) as job:
        assert job.wait() == 0, job.said
    assert (tmp_path / POINT).exists(), "nobody was killed"
    world.still_old(before)
    world.complete(run, number, since="verify")


def test_an_executor_is_killed_and_its_task_runs_again(world: World, tmp_path: Path) -> None:
    before = world.live()
    run, number = world.night()
    with submitted(world, run.url, "hold", tmp_path) as job:
        job.executor_of(job.held_worker(tmp_path / POINT)).kill()
        (tmp_path / f"{POINT}.go").touch()
        assert job.wait() == 0, job.said
    world.still_old(before)
    world.complete(run, number, since="verify")


def test_who_is_killed_before_its_first_write_or_after_a_part_is_done_is_made_up_for(
    world: World, tmp_path: Path
) -> None:
    before = world.live()
    run, number = world.night()
    limited = {**world.environment, "BATCH_MAX_ENTITIES_PER_S": "300"}
    with Submitted(JOB, run.url, limited, tmp_path) as job:
        job.first_executor().kill()
        wait_for(lambda: list(Path(run.place("published")).glob("*.json")), 150, f"a part: {job.said}")
        assert job.niceness == DRIVER_NICE
        for worker in job.python_workers:
            worker.kill()
        assert job.wait() == 0, job.said
    world.still_old(before)
    world.complete(run, number, since="verify")


def test_a_slow_task_is_begun_twice_and_the_second_counts(world: World, tmp_path: Path) -> None:
    before = world.live()
    run, number = world.night()
    with (
        standalone(tmp_path) as master,
        submitted(world, run.url, "hold", tmp_path, {"spark.master": master, **SPECULATION}) as job,
    ):
        slow = job.held_worker(tmp_path / POINT)
        assert job.wait() == 0, job.said
        # Where Spark has not ended it, it goes on, beside a generation that is whole.
        (tmp_path / f"{POINT}.go").touch()
        with suppress(psutil.Error):
            slow.wait(5)
    world.still_old(before)
    world.complete(run, number, since="verify")


def test_the_driver_is_killed_and_what_it_left_behind_changes_nothing(world: World, tmp_path: Path) -> None:
    before = world.live()
    run, number = world.night()
    with submitted(world, run.url, "hold", tmp_path) as job:
        job.held_worker(tmp_path / POINT)
        job.kill_driver()
        assert job.wait() == -signal.SIGKILL
        world.still_old(before)
        assert run.report("publish") is None
        world.complete(run, number)
        (tmp_path / f"{POINT}.go").touch()  # for a worker that outlived it
        world.complete(run, number)
