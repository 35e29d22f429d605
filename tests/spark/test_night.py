"""A whole small night on real Spark and Valkey, and every way in which one is disturbed."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.releases.__main__ import main as releases_main
from schemas import keys
from tests.support.night import AS_OF, QUERY, STEPS, SmallNight

pytestmark = pytest.mark.spark

FLIGHTS = [f"F{i:02d}" for i in range(20)]
ODD_IDS = ["7", "07", "007", "7.0", "1e5", "100000", "+7", "9007199254740992", "9007199254740993"]


def test_a_night_gives_what_bare_torch_gives_and_nothing_is_visible_before_activate(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({entity: i + 1 for i, entity in enumerate(FLIGHTS)})
    begun = night.begin()
    for name in STEPS:
        assert (night.routes() is None) == (name in STEPS[: STEPS.index("activate") + 1])
        assert night.step(name, begun) == 0

    stored = night.stored(begun)
    assert set(stored) == set(FLIGHTS[10:])
    bare = night.bare(begun, list(stored))
    np.testing.assert_allclose(np.stack([p.outputs for p in stored.values()]), bare, rtol=1e-6, atol=1e-6)
    document = night.routes()
    assert document
    live = document.live_generation(document.stable)
    assert live
    assert (live.id, live.rows) == ("20261128T0200Z-1", 10)
    assert document.features
    assert document.features.rows == 20
    score = night.report(begun, "score")
    assert score["model_loads"] in (1, 2)  # once a Python worker
    assert night.report(begun, "verify")["checksum"] == score["checksum"]


def test_every_step_may_run_again(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F01": 3})
    begun = night.begin()
    night.run_all(begun)
    document = night.routes()
    keys_before = sorted(night.redis.keys())
    again = night.begin()
    assert again["generation"] == begun["generation"]
    assert again["token"] != begun["token"]
    night.run_all(again)
    assert night.routes() == document
    assert sorted(night.redis.keys()) == keys_before


def test_a_step_done_over_gives_the_same_files_and_fields(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2))  # all equal: the cut goes through ties
    begun = night.begin()
    night.run_all(begun, until="verify")
    first = night.report(begun, "score")["checksum"]
    folder = Path(str(begun["run"])).parent
    assert pq.read_table(folder / "hotset")["entity"].to_pylist() == FLIGHTS[:10]
    for name in ("features", "select", "score", "publish", "verify"):
        (folder / f"report-{name}.json").unlink()
    night.run_all(begun, until="verify")
    assert night.report(begun, "score")["checksum"] == first
    assert night.report(begun, "verify")["rows"] == 10


def test_ids_that_look_like_numbers_stay_nine(night: SmallNight) -> None:
    night.model = "007"
    night.write_tables(ODD_IDS)
    night.write_log(dict.fromkeys(ODD_IDS, 1), at=AS_OF.replace(hour=1) - timedelta(days=1))
    night_environment = night.data / "requests" / "model=007"
    assert (night_environment / "date=2026-11-27" / "hour=01").is_dir()
    begun = night.begin()
    night.run_all(begun)
    assert night.report(begun, "select")["entities_seen"] == 9
    stored = night.stored(begun)
    assert len(stored) == 4
    bare = night.bare(begun, list(stored))
    np.testing.assert_allclose(np.stack([p.outputs for p in stored.values()]), bare, rtol=1e-6)
    for entity in ODD_IDS:
        raw = entity.encode()
        bucket = keys.bucket_of(raw, keys.bucket_count(9))
        assert night.redis.hexists(keys.feature_key("007", str(begun["generation"]), bucket), entity)


def test_no_log_gives_an_empty_generation_that_says_so(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    begun = night.begin()
    night.run_all(begun)
    assert night.report(begun, "select")["chosen"] == 0
    assert "the generation is empty: every answer will be live" in night.report(begun, "gate")["warnings"]  # type: ignore[operator]
    document = night.routes()
    assert document
    assert document.features


def test_one_entity_alone(night: SmallNight) -> None:
    night.write_tables(["only"])
    night.write_log({"only": 1})
    begun = night.begin()
    night.run_all(begun)
    assert set(night.stored(begun)) == {"only"}


def test_files_that_are_no_log_are_set_aside_and_counted(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5})
    hour = next((night.data / "requests").rglob("hour=*"))
    (hour / "garbage.parquet").write_bytes(b"no parquet at all")
    (hour / "_half-written.parquet").write_bytes(b"PAR1")
    begun = night.begin()
    night.run_all(begun)
    report = night.report(begun, "select")
    assert len(report["log_files_aside"]) == 1  # type: ignore[arg-type]
    assert report["requests"] == 5
    assert not (hour / "garbage.parquet").exists()
    assert list((night.data / "requests-aside").rglob("garbage.parquet"))


def test_duplicates_are_resolved_the_same_way_and_counted(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_MAX_REJECT_SHARE", "0.5")
    night.write_tables(["a", "b", "b", "c"], distance=[1.0, 3.0, 2.0, 4.0])
    night.write_log({"b": 2, "a": 1})
    begun = night.begin()
    night.run_all(begun)
    assert night.report(begun, "features")["rejected"] == 1
    rows = pq.read_table(Path(str(begun["run"])).parent / "features").to_pylist()
    assert sorted((row["entity"], row["distance"]) for row in rows) == [("a", 1.0), ("b", 2.0), ("c", 4.0)]


def test_rows_that_cannot_be_scored_are_rejected_with_the_reason(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_MAX_REJECT_SHARE", "0.6")
    night.write_tables(["good", "bad"], distance=[5.0, -1.0])
    night.write_log({"good": 1, "bad": 2})
    night.settings["BATCH_HOT_FRACTION"] = "1.0"
    monkeypatch.setenv("BATCH_HOT_FRACTION", "1.0")
    begun = night.begin()
    night.run_all(begun)
    rejects = pq.read_table(Path(str(begun["run"])).parent / "rejects").to_pylist()
    assert [(row["entity"], row["reason"]) for row in rejects] == [("bad", "invalid_features")]
    assert "distance must be a finite number >= 0" in rejects[0]["detail"]
    assert set(night.stored(begun)) == {"good"}


def test_too_many_rejects_end_the_night(night: SmallNight) -> None:
    night.write_tables(["good", "bad"], distance=[5.0, -1.0])
    night.write_log({"good": 1, "bad": 2})
    begun = night.begin()
    night.run_all(begun, until="select")
    assert night.step("score", begun) == 2
    assert night.routes() is None


def test_a_query_that_does_not_fit_is_refused_in_words(
    night: SmallNight, caplog: pytest.LogCaptureFixture
) -> None:
    night.write_tables(FLIGHTS, query=QUERY.replace("s.delay,", ""))
    begun = night.begin()
    assert night.step("features", begun) == 2
    assert "lacks the columns delay" in caplog.text


def test_an_older_token_or_interval_cannot_activate(night: SmallNight, caplog: pytest.LogCaptureFixture) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5})
    older = night.begin("older", AS_OF - timedelta(days=1))
    night.run_all(older, until="gate")
    newer = night.begin("newer")
    assert night.step("activate", older) == 2
    assert "a newer run has begun" in caplog.text
    night.run_all(newer)
    late = night.begin("older", AS_OF - timedelta(days=1))
    assert late["generation"] == older["generation"]
    assert night.step("activate", late) == 2
    assert "interval 20261127T0200Z is older than 20261128T0200Z" in caplog.text


@pytest.mark.long
def test_the_next_night_retires_the_one_before_the_previous_and_rollback_works(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5})
    nights = [night.begin(f"night {day}", AS_OF + timedelta(hours=day - 3)) for day in range(3)]
    for begun in nights:
        begun["token"] = night.begin(
            f"night {nights.index(begun)}", AS_OF + timedelta(hours=nights.index(begun) - 3)
        )["token"]
        night.run_all(begun)
    left = {key.decode().split(":")[4] for key in night.redis.keys("hs:tiny:g:*")}
    assert left == {str(begun["generation"]) for begun in nights[1:]}
    tables = {key.decode().split(":")[3] for key in night.redis.keys("hs:tiny:f:*")}
    assert tables == left
    assert releases_main(["rollback", "--model", "tiny", "--yes"]) == 0
    document = night.routes()
    assert document
    live = document.live_generation("1")
    assert live
    assert live.id == nights[1]["generation"]


def test_what_redis_lost_is_found_by_verify(night: SmallNight, caplog: pytest.LogCaptureFixture) -> None:
    night.write_tables(FLIGHTS)
    night.write_log(dict.fromkeys(FLIGHTS, 2))
    begun = night.begin()
    night.run_all(begun, until="publish")
    key = keys.bucket_key("tiny", "1", str(begun["generation"]), 0)
    night.redis.hdel(key, "F03")
    night.redis.hset(key, "F04", b"somebody else's")
    assert night.step("verify", begun) == 2
    assert "1 fields missing, 0 too many, 1 with another value" in caplog.text
    assert night.routes() is None


def test_a_generation_that_does_not_fit_is_refused_with_the_numbers(
    night: SmallNight, caplog: pytest.LogCaptureFixture
) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5})
    begun = night.begin()
    night.run_all(begun, until="score")
    night.redis.config_set("maxmemory", "1mb")
    night.redis.config_set("maxmemory-policy", "volatile-lfu")
    assert night.step("publish", begun) == 2
    assert "the generation needs about" in caplog.text
    night.redis.config_set("maxmemory", "0")
    night.redis.config_set("maxmemory", "100mb")
    night.redis.config_set("maxmemory-policy", "allkeys-lru")
    assert night.step("publish", begun) == 2
    assert "would be evicted" in caplog.text


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("2999-01-01T00:00:00Z", "lies in the future"),
        ("2026-11-28T02:00:00", "has no time zone"),
        ("None", "is no moment"),
    ],
)
def test_moments_that_cannot_be_are_refused(
    night: SmallNight, as_of: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = ["begin", "--model", "tiny", "--bundle", str(night.bundle()), "--run-key", "k", "--as-of", as_of]
    assert publishing_main(call) == 2
    assert message in caplog.text
    assert not (night.data / "runs").exists()
