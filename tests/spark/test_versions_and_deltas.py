"""What a night does for a model that has more than one version, and what is done between nights."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.releases.__main__ import main as releases_main
from batch_scoring.runs import Run
from schemas.bundle import read_folder
from tests.support.night import AS_OF, SmallNight
from tests.support.released import AGREED

pytestmark = [pytest.mark.spark, pytest.mark.long]

FLIGHTS = [f"F{i:02d}" for i in range(20)]
HOUR = timedelta(hours=1)


def live(night: SmallNight) -> tuple[str, str | None, list[str]]:
    document = night.routes()
    assert document
    found = document.live_generation(document.stable)
    assert found
    return document.stable, found.id, [delta.id for delta in found.deltas]


def warm(night: SmallNight, version: str) -> None:
    """A report of a replica that has the version warm; the gate of a release asks for one."""
    seconds, _ = night.redis.time()
    digest = read_folder(night.bundle(version)).digest
    one = {"model": "tiny", "version": version, "digest": digest, "state": "ready", "max_batch_rows": 64}
    one |= {"tau0_ms": 1.0, "alpha_ms": 0.01}
    night.redis.hset("hs:replicas", "n1", json.dumps({"at_ms": seconds * 1000 + 60_000, "versions": [one]}))


def run_release(night: SmallNight, begun: Mapping[str, object]) -> None:
    """All steps; what a replica would say of the new version is planted, since none runs here."""
    night.run_all(begun, until="verify")
    run = Run.load(str(begun["run"]))
    run.finish("verify", {**run.need_report("verify"), "parity": AGREED})
    for step in ("gate", "activate", "retire"):
        assert night.step(step, begun) == 0, step


def whole(night: SmallNight, begun: Mapping[str, object]) -> dict[str, object]:
    night.run_all(begun)
    return dict(begun)


def first(night: SmallNight) -> str:
    return str(
        whole(night, night.begin_night("--first-bundle", str(night.bundle("1")), as_of=AS_OF - 9 * HOUR)[0])[
            "generation"
        ]
    )


def test_a_night_refreshes_what_is_in_service_and_for_some_days_the_version_before(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2), at=AS_OF - 30 * HOUR)
    old = first(night)
    warm(night, "2")
    release = night.begin("release", AS_OF - 8 * HOUR, version="2")
    assert release["role"] == "new"
    run_release(night, release)
    assert live(night)[:2] == ("2", release["generation"])

    # The bundle of the first version is what the schedule still names: it is not gone back to.
    both = night.begin_night("--first-bundle", str(night.bundle("1")), run_key="next")
    assert [(one["version"], one["role"]) for one in both] == [("2", "stable"), ("1", "previous")]
    assert both[0]["token"] == both[1]["token"]
    assert night.begin_night("--first-bundle", str(night.bundle("1")), run_key="next")[1]["run"] == both[1]["run"]
    tokens = night.begin_night("--first-bundle", str(night.bundle("1")), run_key="next")
    for one in tokens:
        night.run_all(one)
    assert live(night)[:2] == ("2", both[0]["generation"])

    assert releases_main(["rollback", "--model", "tiny", "--to", "1", "--yes"]) == 0
    assert live(night)[:2] == ("1", both[1]["generation"])
    document = night.routes()
    assert document
    assert document.features
    assert document.features.id == both[1]["generation"]
    # Two generations of a version stay: the renewed one, and the one it replaced.
    assert [one.id for one in document.versions["1"].generations] == [both[1]["generation"], old]

    monkeypatch.setenv("BATCH_RESCORE_PREVIOUS_DAYS", "0")
    alone = night.begin_night(run_key="later")
    assert [(one["version"], one["role"]) for one in alone] == [("1", "stable")]


def test_a_refresh_never_brings_back_a_version_that_was_replaced_meanwhile(
    night: SmallNight, caplog: pytest.LogCaptureFixture
) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5}, at=AS_OF - 30 * HOUR)
    first(night)
    warm(night, "2")
    run_release(night, night.begin("release", AS_OF - 8 * HOUR, version="2"))
    refresh = night.begin_night(run_key="refresh")[0]
    night.run_all(refresh, until="gate")
    assert releases_main(["rollback", "--model", "tiny", "--to", "1", "--yes"]) == 0
    assert night.step("activate", refresh) == 2
    assert "version 1 is in service, and this run refreshes version 2" in caplog.text
    assert live(night)[0] == "1"


def test_a_delta_scores_what_has_changed_and_leaves_the_base_untouched(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2), at=AS_OF - 30 * HOUR)
    base = night.begin_night("--first-bundle", str(night.bundle()), as_of=AS_OF - 9 * HOUR)[0]
    night.run_all(base)
    before = night.stored(base)
    hot = sorted(before)
    token = night.redis.get("hs:{tiny}:run")

    night.write_tables(
        FLIGHTS, distance=[7.0 if name in hot[:3] else 100.0 + 10 * i for i, name in enumerate(FLIGHTS)]
    )
    delta = night.begin_night("--delta", run_key="noon")[0]
    assert (delta["role"], night.redis.get("hs:{tiny}:run")) == ("delta", token)
    night.run_all(delta)
    assert live(night) == ("1", base["generation"], [delta["generation"]])
    patched = night.stored(delta)
    assert sorted(patched) == hot[:3]
    np.testing.assert_allclose(
        np.stack([patched[name].outputs for name in hot[:3]]), night.bare(delta, hot[:3]), rtol=1e-6
    )
    assert {name: one.outputs for name, one in night.stored(base).items()} == {
        name: one.outputs for name, one in before.items()
    }
    document = night.routes()
    assert document
    assert document.features
    assert document.features.id == delta["generation"]

    # Back to what it was: there is nothing left to patch.
    night.write_tables(FLIGHTS)
    again = night.begin_night("--delta", run_key="evening", as_of=AS_OF + timedelta(minutes=1))[0]
    night.run_all(again)
    assert live(night) == ("1", base["generation"], [])
    assert night.redis.exists(f"hs:tiny:g:1:{delta['generation']}:manifest") == 0


def test_a_delta_of_a_base_that_was_replaced_meanwhile_is_refused(
    night: SmallNight, caplog: pytest.LogCaptureFixture
) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5}, at=AS_OF - 30 * HOUR)
    first(night)
    delta = night.begin_night("--delta", run_key="noon", as_of=AS_OF + timedelta(minutes=1))[0]
    night.run_all(delta, until="gate")
    night.run_all(night.begin_night(run_key="night")[0])
    assert night.step("activate", delta) == 2
    assert "which is not live" in caplog.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--delta",), "a delta needs a live generation"),
        ((), "name the bundle of its first version"),
        (("--delta", "--bundle", "/bundles/1"), "it takes no bundle"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_words(
    night: SmallNight, words: tuple[str, ...], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = ["begin", "--model", "tiny", "--run-key", "k", "--as-of", AS_OF.isoformat(), *words]
    assert publishing_main(call) == 2
    assert message in caplog.text
    assert not list(night.data.rglob("run.json"))


def test_hot_sets_of_deltas_keep_the_weights_of_the_base(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5, "F04": 1}, at=AS_OF - 30 * HOUR)
    base = night.begin_night("--first-bundle", str(night.bundle()), as_of=AS_OF - 9 * HOUR)[0]
    night.run_all(base)
    night.write_tables(FLIGHTS, distance=[1.0] * len(FLIGHTS))
    delta = night.begin_night("--delta", run_key="noon")[0]
    night.run_all(delta, until="select")
    weights = [
        {
            row["entity"]: row["weight"]
            for row in pq.read_table(Path(str(one["run"])).parent / "hotset").to_pylist()
        }
        for one in (base, delta)
    ]
    assert weights[0] == weights[1]


def test_a_redis_that_was_lost_gets_back_what_was_in_service_without_scoring_again(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5}, at=AS_OF - 30 * HOUR)
    first(night)
    warm(night, "2")
    release = night.begin("release", AS_OF - 8 * HOUR, version="2")
    run_release(night, release)
    scored_at = night.report(release, "score")["finished_at"]
    night.redis.flushall()
    warm(night, "2")

    again = night.begin_night("--first-bundle", str(night.bundle("1")), run_key="release", as_of=AS_OF - 8 * HOUR)
    assert [(one["version"], one["role"], one["run"]) for one in again] == [("2", "stable", release["run"])]
    night.run_all(again[0])
    assert live(night)[:2] == ("2", release["generation"])
    assert night.report(again[0], "score")["finished_at"] == scored_at
    assert set(night.stored(again[0])) == {"F03"}
