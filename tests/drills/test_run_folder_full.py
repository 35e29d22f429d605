"""The disk of the runs is full when a step keeps its report or a checkpoint: said, and done when there is room."""

from collections.abc import Iterator

import pytest

from tests.drills.small_disk import Disk, small_disk
from tests.drills.world import STEPS, World, running_world

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    with small_disk(tmp_path_factory.mktemp("full") / "disk", 16 << 20) as disk:
        yield disk


@pytest.fixture(scope="module")
def world(disk: Disk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("drills"), data=disk.folder / "data") as world:
        yield world


@pytest.mark.parametrize("step", STEPS)
def test_full_at(world: World, disk: Disk, step: str) -> None:
    before = world.live()
    run, number = world.night()
    for name in STEPS[: STEPS.index(step)]:
        if name == "activate":
            world.old_or_new(number)
        world.steps(run, name)
    if step == "activate":
        world.old_or_new(number)
    disk.fill(left=0)
    with world.apart(step, run) as job:
        assert job.wait() == 1, job.said
    assert "No space left on device" in job.said
    assert "Traceback" not in job.said
    assert run.report(step) is None
    if step in ("publish", "verify", "gate"):
        world.still_old(before)
    disk.free()
    world.complete(run, number, since=step)
    assert not list(disk.folder.rglob("*.tmp"))
