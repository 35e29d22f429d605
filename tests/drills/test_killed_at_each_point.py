"""A job is killed at each of its named points, under look-ups that are all checked.

Clients keep getting the old answers until the new ones are whole; running the steps again completes.
"""

import signal
from pathlib import Path

import pytest

from batch_scoring.fail_points import POINTS
from tests.drills.world import STEPS, World


@pytest.mark.parametrize("point", POINTS)
def test_old_answers_until_the_new_are_whole_and_a_second_run_completes(
    world: World, point: str, tmp_path: Path
) -> None:
    before, killed = world.live(), point.partition(".")[0]
    run, number = world.night()
    for name in STEPS[: STEPS.index(killed)]:
        if name == "activate":
            world.old_or_new(number)
        world.steps(run, name)
    if killed == "activate":
        world.old_or_new(number)

    with world.apart(killed, run, f"{point}:kill:{tmp_path}") as job:
        assert job.wait() == -signal.SIGKILL, job.said
    assert (tmp_path / point).exists(), "it was killed elsewhere"

    is_live = point == "activate.changed" or killed == "retire"
    assert world.live() == (run.generation if is_live else before)
    world.lookups.wait_for_more(20)
    world.complete(run, number, since=killed)
