"""Score files that are not what was scored: refused in words, nothing is verified; scoring again completes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from batch_scoring.runs import Run
from tests.drills.world import World

pytestmark = pytest.mark.fault

Harm = Callable[[World, Path], object]


def flipped(world: World, path: Path) -> None:
    """A byte of a page in its middle."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw)


def cut_short(world: World, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def gone(world: World, path: Path) -> None:
    path.unlink()


def of_another_run(world: World, path: Path) -> None:
    """Sound in itself, of the same entities, under the same name."""
    other = world.scored(0, run_key="another")
    shutil.copy(Path(other.place("scores"), path.name), path)


def part_of(run: Run) -> Path:
    return Path(run.place("scores"), "part-00001.parquet")


@pytest.mark.parametrize("harm", [flipped, cut_short, gone, of_another_run])
def test_refused_by_publish(world: World, harm: Harm) -> None:
    before = world.live()
    run, number = world.night()
    harm(world, part_of(run))
    run = world.begin(number)  # the newest token, whatever the harm began
    refused_and_scored_again(world, run, number, "publish", before)


@pytest.mark.parametrize("harm", [flipped, gone])
def test_refused_by_verify(world: World, harm: Harm) -> None:
    before = world.live()
    run, number = world.night()
    world.steps(run, "publish")
    harm(world, part_of(run))
    refused_and_scored_again(world, run, number, "verify", before)


def refused_and_scored_again(world: World, run: Run, number: int, step: str, before: str | None) -> None:
    with world.apart(step, run) as job:
        assert job.wait() == 2, job.said
    assert "part-00001.parquet" in job.said
    assert "run score again" in job.said
    for name in ("verify", "gate", "activate"):
        assert world.step(name, run) == 2, name
    world.still_old(before)
    assert run.report("score") is None, "the step would be taken for done"
    world.score(run, number)
    world.complete(run, number)
