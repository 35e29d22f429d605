"""Each DAG as Airflow runs it, on local Spark and a real server: one story, told in the order of the tests.

A Spark step costs seconds before it works, so the tests share one world, and each goes on from what the one before
left live.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from infra.airflow.night import NIGHT_MARK, NightFailed
from infra.local.supervision import marked_pids
from schemas import keys
from schemas.bundle import read_folder
from schemas.history import read_history
from tests.dags.world import FLIGHTS, TOKEN_FILE, Kill, World, small_world
from tests.support.inference import NodeProcess
from tests.support.night import AS_OF

pytestmark = [pytest.mark.airflow, pytest.mark.fault, pytest.mark.timeout(600)]

HOT = set(FLIGHTS[10:])
FIRST = "20261128T0200Z-1"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    # A short path: the node's sockets lie below it.
    with tempfile.TemporaryDirectory(prefix="hotset-dags-") as folder, small_world(Path(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def replica(world: World) -> Iterator[NodeProcess]:
    """A node of the live tier that has version 1 warm, and takes what it is told to load."""
    folder = world.night.folder
    bundle = world.night.bundle("1")
    with NodeProcess.run(
        folder / "node",
        [f"{bundle}@{read_folder(bundle).digest}"],
        [folder],
        redis_url=world.night.redis_url,
        admin_token=folder / TOKEN_FILE,
        name="replica-1",
    ) as node:
        end_s = time.monotonic() + 60
        while b'"ready"' not in (world.night.redis.hget(keys.REPLICAS_KEY, "replica-1") or b""):
            assert time.monotonic() < end_s, f"the node did not get warm: {node.logs}"
            time.sleep(0.1)
        yield node


def live(world: World) -> tuple[str, str]:
    """Version and generation in service."""
    document = world.night.routes()
    assert document
    found = document.live_generation(document.stable)
    assert found
    return document.stable, found.id


def begun(world: World, generation: str) -> Mapping[str, object]:
    return {"run": f"{world.night.data}/runs/model=tiny/{generation}/run.json"}


def tries(world: World, step: str) -> int:
    return world.told.count(f"{step} ...")


def models(world: World) -> list[dict[str, str]]:
    return [{"model": "tiny", "bundle": str(world.night.bundle("1"))}]


def run_for_good(world: World, dag_id: str, *, as_of: datetime = AS_OF, **parameters: str) -> None:
    world.run(dag_id, parameters, as_of, models(world))


def test_a_night_whose_steps_are_killed_goes_live_beside_a_model_that_cannot_begin(world: World) -> None:
    broken = {"model": "broken", "bundle": f"{world.night.folder}/bundles/missing"}
    kill = [
        # Its Python workers run: it is scoring.
        Kill("score", "java.*scoring/__main__.py", "pyspark.daemon"),
        Kill("publish", "java.*publishing/publish_job.py", "pyspark.daemon"),
        Kill("verify", "publishing verify "),
        Kill("activate", "publishing activate "),
    ]
    with pytest.raises(NightFailed, match=r"(?s)step begin\[1\] failed.*refused: .*missing cannot be read"):
        world.run("nightly_precompute", models=[*models(world), broken], kill=kill)

    assert world.killed == ["score", "publish", "verify", "activate"]
    steps = ("select", "score", "publish", "verify", "activate", "retire")
    assert [tries(world, step) for step in steps] == [1, 2, 2, 2, 2, 1]
    assert live(world) == ("1", FIRST)
    stored = world.night.stored(begun(world, FIRST))
    assert set(stored) == HOT
    bare = world.night.bare(begun(world, FIRST), list(stored))
    np.testing.assert_allclose(np.stack([one.outputs for one in stored.values()]), bare, rtol=1e-6, atol=1e-6)
    assert world.activated() == [{"model": "tiny", "generation": FIRST, "role": "stable"}]
    # What a retry mends alerts nobody; what is refused is told once.
    assert tries(world, "begin[1]") == 1
    (alert,) = world.alerts
    assert (alert["dag"], alert["model"], alert["step"]) == ("nightly_precompute", "broken", "begin[1]")
    assert alert["refused"] is True
    assert "missing cannot be read" in str(alert["reason"])
    assert "\n" not in str(alert["text"])
    assert "/tasks/begin/" in str(alert["log"])
    assert marked_pids(f"{NIGHT_MARK}=") == []


def test_a_backfill_of_a_past_night_is_refused_at_activate_without_a_retry(world: World) -> None:
    before = world.night.routes()
    with pytest.raises(NightFailed, match=r"(?s)step activate failed.*refused: "):
        run_for_good(world, "nightly_precompute", as_of=AS_OF - timedelta(days=1))
    assert tries(world, "activate") == 1
    assert tries(world, "retire") == 0
    assert world.night.routes() == before
    (alert,) = world.alerts
    assert (alert["step"], alert["generation"], alert["refused"]) == (
        "night.release.activate[0]",
        "20261127T0200Z-1",
        True,
    )


def test_a_release_of_another_version_than_was_asked_for_is_refused_in_words(world: World) -> None:
    bundle = str(world.night.bundle("2"))
    with pytest.raises(NightFailed, match=r"step begin failed(?s:.)*the bundle is of version 2, not 3"):
        run_for_good(world, "model_release", model="tiny", bundle=bundle, version="3")
    assert tries(world, "begin") == 1
    assert tries(world, "features") == tries(world, "load") == 0
    assert live(world) == ("1", FIRST)


def test_a_release_is_loaded_on_the_live_tier_before_it_goes_live(world: World, replica: NodeProcess) -> None:
    bundle = world.night.bundle("2")
    at = AS_OF + timedelta(hours=1)
    run_for_good(world, "model_release", as_of=at, model="tiny", bundle=str(bundle), version="2")
    assert live(world) == ("2", "20261128T0300Z-1")
    assert world.activated()[-1] == {"model": "tiny", "generation": "20261128T0300Z-1", "role": "new"}
    announced = world.night.redis.hget(keys.REPLICAS_KEY, "replica-1") or b""
    # The version before stays warm too, so that a rollback finds its replicas.
    for one in (bundle, world.night.bundle("1")):
        assert read_folder(one).digest.encode() in announced
    assert world.told.index("load ...") < world.told.index("publish ...")
    assert world.alerts == []


def test_a_rollback_that_is_killed_and_tried_again_goes_back_once(world: World) -> None:
    kill = [Kill("rollback", "releases rollback ")]
    parameters = {"model": "tiny", "why": "wrong -- airlines"}
    world.run("rollback", parameters, models=models(world), kill=kill)
    assert world.killed == ["rollback"]
    assert tries(world, "rollback") == 2
    assert live(world) == ("1", FIRST)
    history = read_history(world.night.redis.lrange(keys.history_key("tiny"), 0, -1))
    (change,) = [one for one in history if one.why == "rollback: wrong -- airlines"]
    assert "dag_test by rollback/" in change.by

    again = {**parameters, "from_generation": "20261128T0300Z-1"}
    world.run("rollback", again, models=models(world))
    assert live(world) == ("1", FIRST)


def test_a_delta_patches_what_has_changed_and_leaves_the_base(world: World) -> None:
    base = world.night.stored(begun(world, FIRST))
    changed = sorted(HOT)[:3]
    distance = [7.0 if name in changed else 100.0 + 10 * i for i, name in enumerate(FLIGHTS)]
    world.night.write_tables(FLIGHTS, distance=distance)
    run_for_good(world, "delta_refresh", as_of=AS_OF + timedelta(hours=2))
    document = world.night.routes()
    assert document
    found = document.live_generation(document.stable)
    assert found
    assert (found.id, [one.id for one in found.deltas]) == (FIRST, ["20261128T0400Z-1"])
    patched = world.night.stored(begun(world, "20261128T0400Z-1"))
    assert sorted(patched) == changed
    still = world.night.stored(begun(world, FIRST))
    assert {name: one.outputs for name, one in still.items()} == {name: one.outputs for name, one in base.items()}
