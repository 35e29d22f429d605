"""Redis runs out of memory, or of disk, half-way through publishing: hits go on, and the step does later."""

import time
from pathlib import Path

import pytest

from tests.drills.small_disk import small_disk
from tests.drills.world import PERSISTENT, World, running_world
from tests.support.api_process import wait_for

pytestmark = pytest.mark.fault

_DISK_BYTES = 16 << 20
_LEFT_BYTES = 30_000


def test_out_of_memory_half_way(world: World, tmp_path: Path) -> None:
    before = world.live()
    run, number = world.night()
    world.redis.config_set("maxmemory-policy", "volatile-lfu")
    with world.held("publish", run, "publish.half", tmp_path) as job:
        world.redis.config_set("maxmemory", 1 << 20)
    assert job.wait() == 1, job.said
    assert "Redis is out of memory (" in job.said
    assert "Traceback" not in job.said
    hits = world.lookups.hits
    world.still_old(before)
    assert world.lookups.hits >= hits + 20
    assert world.step("verify", run) == 2
    # Told before anything is written, with the numbers.
    with world.apart("publish", run) as refused:
        assert refused.wait() == 2
    assert "needs about" in refused.said
    world.redis.config_set("maxmemory", 0)
    world.complete(run, number)


def test_disk_full_half_way(tmp_path: Path) -> None:
    """The disk of its AOF: a write that it cannot keep is refused, a hit is answered."""
    with small_disk(tmp_path / "disk", _DISK_BYTES) as disk:
        options = (*PERSISTENT, "--dir", str(disk.folder))
        with running_world(tmp_path, options) as world:
            before = world.live()
            run, number = world.night()
            disk.fill(left=_LEFT_BYTES)
            with world.apart("publish", run) as job:
                assert job.wait() == 1, job.said
            assert "Redis cannot save to its disk and takes no writes (RDB ok, AOF err)" in job.said
            assert "Traceback" not in job.said
            hits, began_s = world.lookups.hits, time.monotonic()
            world.still_old(before)
            wait_for(lambda: world.lookups.hits >= hits + 200, what="hits with a full disk")
            assert time.monotonic() - began_s < 10
            assert world.step("verify", run) == 2
            disk.free()
            wait_for(lambda: world.redis.info("persistence")["aof_last_write_status"] == "ok", what="room")
            world.complete(run, number)
            # What it kept is what was published, though a write was cut short.
            with world.lookups.losing():
                world.server.stop()
                world.server.start()
            world.is_whole(run, number)
