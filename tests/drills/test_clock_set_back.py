"""Redis's clock is set back by an hour: its reply to TIME is patched in this process, where the steps run."""

import pytest
from redis import Redis

from schemas.keys import bucket_key
from tests.drills.world import MODEL, World

pytestmark = pytest.mark.fault


def set_back(patch: pytest.MonkeyPatch, seconds: int) -> None:
    asked = Redis.time
    patch.setattr(Redis, "time", lambda client: (asked(client)[0] - seconds, asked(client)[1]))


def test_newer_stays_newer_and_nothing_is_deleted_early(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.document()
    assert before
    live = before.live_generation("1")
    assert live
    leaving = before.versions["1"].generations[-1]
    set_back(monkeypatch, 3600)
    monkeypatch.setenv("BATCH_RETIRE_AFTER_S", "60")
    run, number = world.night()
    assert run.started_at_ms > live.computed_at_ms
    world.steps(run, "publish", "verify", "gate")
    world.old_or_new(number)
    world.steps(run, "activate", "retire")

    after = world.document()
    assert after
    assert after.order > before.order
    assert after.live_generation("1").computed_at_ms > live.computed_at_ms
    world.lookups.settle(number)
    # Out of service a moment ago, whatever the clock says: a request may still read it.
    assert leaving.id not in [one.id for one in after.versions["1"].generations]
    assert world.redis.exists(bucket_key(MODEL, "1", leaving.id, 0))
    world.number = number

    monkeypatch.undo()
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    run, number = world.night()
    world.complete(run, number)
    assert not world.redis.exists(bucket_key(MODEL, "1", leaving.id, 0))
