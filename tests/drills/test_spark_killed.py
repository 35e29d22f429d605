"""Processes of Spark are killed in the middle of publishing, by the very job that a night submits."""

import signal
from pathlib import Path

import pytest

from tests.drills.cluster import Submitted
from tests.drills.world import World

pytestmark = [pytest.mark.spark, pytest.mark.fault]

JOB = "publishing/publish_job.py"
POINT = "publish.half"


def submitted(world: World, url: str, action: str, folder: Path) -> Submitted:
    return Submitted(JOB, url, {**world.environment, "BATCH_FAIL_POINT": f"{POINT}:{action}:{folder}"}, folder)


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
