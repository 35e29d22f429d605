"""Two who publish at the same time: exactly one goes live, whole, and the other gives up in words."""

from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.runs import Run
from schemas.keys import REPLICAS_KEY
from tests.drills.jobs import Job
from tests.drills.world import World
from tests.support.released import AGREED

pytestmark = pytest.mark.fault

REFUSED = 2


def together(world: World, steps: tuple[str, ...], *runs: Run) -> list[Job]:
    """Both at once, to their ends."""
    with ExitStack() as stack:
        jobs = [stack.enter_context(world.apart(steps, run)) for run in runs]
        for job in jobs:
            job.wait()
    for job in jobs:
        assert "Traceback" not in job.said, job.said
    return jobs


def test_two_runs_of_one_interval(world: World) -> None:
    number = world.next_number()
    older = world.scored(number, run_key="first", day=number)
    newer = world.scored(number + 0.5, run_key="second", day=number)
    assert (older.as_of, older.generation != newer.generation) == (newer.as_of, True)
    world.old_or_new(number + 0.5)
    first, second = together(world, ("publish", "verify", "gate", "activate"), older, newer)
    assert (first.wait(), second.wait()) == (REFUSED, 0), first.said + second.said
    assert f"run token {older.token} " in first.said
    world.steps(newer, "retire")
    world.is_whole(newer, number + 0.5)
    # Begun again, it is the newest, and of an interval that is not older.
    again = world.begin(number, run_key="first", day=number)
    world.score(again, number)  # its ordinal has gone live with the other
    world.complete(again, number)


def test_the_same_run_by_two_processes(world: World) -> None:
    before = world.live()
    run, number = world.night()
    for job in together(world, ("publish",), run, run):
        assert job.wait() in (0, 1), job.said
    world.still_old(before)
    world.complete(run, number)


def test_a_driver_that_wakes_when_its_run_is_live_changes_nothing(world: World, tmp_path: Path) -> None:
    run, number = world.night()
    with world.held("publish", run, "publish.half", tmp_path) as zombie:
        world.complete(run, number)
    assert zombie.wait() in (0, 1), zombie.said
    assert "Traceback" not in zombie.said
    world.complete(run, number)


def test_a_driver_that_wakes_with_older_scores_writes_nothing_more(world: World, tmp_path: Path) -> None:
    run, number = world.night()
    with world.held("publish", run, "publish.half", tmp_path) as zombie:
        world.score(run, number + 0.5)
        world.complete(run, number + 0.5)
    assert zombie.wait() in (1, REFUSED), zombie.said
    assert "is being published by another job" in zombie.said or "is not what was scored" in zombie.said
    world.is_whole(run, number + 0.5)
    assert world.step("verify", run) == 0


def test_an_older_run_that_a_newer_one_sweeps_away_is_refused_and_leaves_nothing(
    world: World, tmp_path: Path
) -> None:
    number = world.next_number()
    older = world.scored(number, run_key="older", day=number)
    with world.held("publish", older, "publish.half", tmp_path) as swept:
        newer = world.scored(number + 0.5, run_key="newer", day=number)
        world.steps(newer, "publish")
    assert swept.wait() == REFUSED, swept.said
    assert f"run token {older.token} of " in swept.said
    world.complete(newer, number + 0.5, since="verify")


def test_a_release_that_is_refused_takes_no_token_from_a_night(world: World) -> None:
    run, number = world.night()
    words = world.words_of_begin(run.as_of, "release", "2")
    assert publishing_main([*words, "--version", "3"]) == REFUSED
    world.complete(run, number)


def test_two_versions_released_at_once(world: World) -> None:
    """Last in this file: version 1 is no longer in service then."""
    number = world.next_number()
    runs = [world.scored(number + i / 2, f"release {i}", version=str(2 + i), day=number) for i in range(2)]
    older, newer = together(world, ("publish", "verify"), *runs)
    assert newer.wait() == 0, newer.said
    # Its newer rival, which deletes what cannot go live any more, may have found it at work.
    if is_swept := older.wait() != 0:
        assert (older.wait(), "is no longer the newest" in older.said) == (REFUSED, True), older.said
    served = [
        {"model": run.model, "version": run.version, "digest": run.bundle_digest, "state": "ready"} for run in runs
    ]
    now_ms = world.redis.time()[0] * 1000
    world.redis.hset(REPLICAS_KEY, "replica", orjson.dumps({"at_ms": now_ms, "versions": served}))
    left = runs[1:] if is_swept else runs
    for run in left:
        run.finish("verify", {**run.need_report("verify"), "parity": AGREED})
    world.old_or_new(number + 0.5)
    *first, second = together(world, ("gate", "activate"), *left)
    assert second.wait() == 0, second.said
    assert all(job.wait() == REFUSED for job in first), [job.said for job in first]
    assert world.made.live() == ("3", runs[1].generation)
    world.steps(runs[1], "retire")
    world.is_whole(runs[1], number + 0.5)
