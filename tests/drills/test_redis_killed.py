"""Redis is killed while a job waits at each of its points, and comes back with all it had, with less, or empty.

While it is away a look-up may be refused or degraded, and is never wrong; afterwards it is old or new.
"""

import os
import shutil
from pathlib import Path

import pytest

from batch_scoring.fail_points import POINTS
from batch_scoring.runs import Run
from tests.drills.jobs import Job
from tests.drills.world import STEPS, World
from tests.support.api_process import wait_for

pytestmark = pytest.mark.fault

# Enough for the last bucket and half of the one before; or for the end of a transaction.
_LOST_BYTES = {"publish.half": 6000, "publish.written": 300, "activate.changed": 200}
_LOSERS = ("publish.half", "verify.compared", "activate.changed")


def reached(world: World, point: str) -> tuple[Run, int]:
    """The next night, done until before the step of that point."""
    run, number = world.night()
    step = point.partition(".")[0]
    for name in STEPS[: STEPS.index(step)]:
        if name == "activate":
            world.old_or_new(number)
        world.steps(run, name)
    if step in ("activate", "retire"):
        world.old_or_new(number)
    return run, number


def kill(world: World) -> Path:
    """The folder of what it appended to; returns when look-ups have noticed."""
    kept = Path(world.redis.config_get("dir")["dir"], "appendonlydir")
    world.server.stop()
    lost = world.lookups.lost
    wait_for(lambda: world.lookups.lost >= lost + 5, what="look-ups that notice")
    return kept


def ended_well(job: Job) -> None:
    """Done, or given up in words."""
    assert job.wait() in (0, 1, 2), job.said
    assert "Traceback" not in job.said


@pytest.mark.parametrize("point", POINTS)
def test_restarted_with_all_it_had(world: World, point: str, tmp_path: Path) -> None:
    before, step = world.live(), point.partition(".")[0]
    run, number = reached(world, point)
    with world.held(step, run, point, tmp_path) as job, world.lookups.losing():
        kill(world)
        world.server.start()
    ended_well(job)
    assert world.live() in (before, run.generation)
    if step in ("publish", "verify"):
        world.still_old(before)
    world.complete(run, number, since=step)


@pytest.mark.parametrize("point", _LOST_BYTES)
def test_restarted_without_what_it_was_told_last(world: World, point: str, tmp_path: Path) -> None:
    """As after a loss of power: the end of its file is missing, in the middle of a transaction."""
    before, step = world.live(), point.partition(".")[0]
    run, number = reached(world, point)
    with world.held(step, run, point, tmp_path) as job, world.lookups.losing():
        appended = max(kill(world).glob("*.incr.aof"))
        os.truncate(appended, appended.stat().st_size - _LOST_BYTES[point])
        world.server.start()
        assert world.live() == before
    ended_well(job)
    world.complete(run, number)


@pytest.mark.parametrize("point", _LOSERS)
def test_restarted_empty(world: World, point: str, tmp_path: Path) -> None:
    """Nothing is left that could be answered with; the same run, begun again, brings it back."""
    step = point.partition(".")[0]
    run, number = reached(world, point)
    with world.lookups.losing():
        with world.held(step, run, point, tmp_path) as job:
            shutil.rmtree(kill(world))
            world.server.start()
            assert world.redis.dbsize() == 0
        ended_well(job)
        assert world.document() is None, "nothing could be activated"
        again = world.begin(number)
        assert again.generation == run.generation
        world.features(again)
        world.complete(again, number)
