"""What comes in from outside: logs of other schemas, and what a feature query may return."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from batch_scoring.scoring.model import task_device
from schemas.arrow import HOT_SET, REJECTS, SCORES, features_schema
from schemas.bundle import read_folder
from tests.support.night import AS_OF, QUERY, SmallNight
from tests.support.request_log import hour_folder

pytestmark = [pytest.mark.spark, pytest.mark.long]

FLIGHTS = [f"F{i:02d}" for i in range(20)]


def put(night: SmallNight, name: str, rows: int = 2, **columns: pa.Array) -> Path:
    """A log file with other columns than the declared ones: `rows` requests of F05."""
    at = AS_OF - timedelta(hours=6)
    given = {
        "status": pa.array([200] * rows, pa.int16()),
        "entity": pa.array(["F05"] * rows),
        "time": pa.array([at] * rows, pa.timestamp("us", "UTC")),
    } | columns
    path = hour_folder(night.data, night.model, at) / name
    pq.write_table(pa.table({key: value for key, value in given.items() if value is not None}), path)
    return path


def test_logs_of_older_schemas_are_read_and_what_is_no_log_is_set_aside(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 5})
    at = pa.array([AS_OF - timedelta(hours=6)] * 2, pa.timestamp("us", "UTC"))
    put(night, "ns.parquet", time=at.cast(pa.timestamp("ns", "UTC")))
    put(night, "ms.parquet", time=at.cast(pa.timestamp("ms", "UTC")))
    put(night, "no-zone.parquet", time=at.cast(pa.timestamp("us")))
    put(night, "dictionary.parquet", entity=pa.array(["F05", "F05"]).dictionary_encode())
    put(night, "large.parquet", entity=pa.array(["F05", "F05"], pa.large_string()))
    put(night, "int32.parquet", status=pa.array([200, 503], pa.int32()), latency=pa.array([1, 2], pa.int32()))
    put(night, "double.parquet", status=pa.array([200.0, 404.0]))
    put(night, "unsigned.parquet", status=pa.array([200, 200], pa.uint16()))
    put(night, "no-status.parquet", status=None)
    put(night, "null-status.parquet", status=pa.nulls(2))
    put(night, "null-entity.parquet", entity=pa.nulls(2))
    put(night, "numbers.parquet", entity=pa.array([5, 5]))
    put(night, "text-time.parquet", time=pa.array(["2026-11-27", "2026-11-27"]))
    put(night, "garbage.parquet").write_bytes(b"PAR1 but no more")
    rows = 5000
    damaged = put(night, "damaged.parquet", rows, entity=pa.array([f"E{i}" for i in range(rows)]))
    raw = bytearray(damaged.read_bytes())
    raw[4 : len(raw) // 2] = bytes(len(raw) // 2 - 4)
    damaged.write_bytes(raw)

    begun = night.begin()
    night.run_all(begun, until="select")
    report = night.report(begun, "select")
    aside = report["log_files_aside"]
    assert isinstance(aside, dict)
    names = {name.rpartition("/")[2] for name in aside}
    assert names == {"numbers.parquet", "text-time.parquet", "garbage.parquet", "damaged.parquet"}
    assert len(list((night.data / "requests-aside").rglob("*.parquet"))) == 4
    assert report["requests"] == 5 + 2 * 7 + 1 + 1
    hot = pq.read_table(Path(str(begun["run"])).parent / "hotset").to_pylist()
    assert [row["entity"] for row in hot] == ["F05", "F03"]
    assert report["coverage"] == 1.0


def test_newer_requests_count_more_and_a_half_life_halves(night: SmallNight) -> None:
    night.write_tables(FLIGHTS)
    night.write_log({"F01": 3}, at=AS_OF - timedelta(days=7, hours=1))
    night.write_log({"F02": 2, "unknown": 9}, at=AS_OF - timedelta(hours=1))
    night.write_log({"F03": 50}, at=AS_OF - timedelta(days=29))
    night.write_log({"F04": 50}, at=AS_OF)  # after the moment that the night knows
    begun = night.begin()
    night.run_all(begun, until="select")
    hot = pq.read_table(Path(str(begun["run"])).parent / "hotset").to_pylist()
    weights = {row["entity"]: row["weight"] for row in hot}
    assert list(weights) == ["F02", "F01"]
    assert weights["F01"] / 3 == pytest.approx(weights["F02"] / 2 / 2, rel=1e-6)
    assert night.report(begun, "select")["coverage"] == pytest.approx(5 / 14)


def test_rows_that_cannot_be_are_rejected_by_reason(night: SmallNight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_MAX_REJECT_SHARE", "0.5")
    more = (
        "SELECT cast(unhex('FF41') AS string), as_of, 1.0D, 1.0D, 'AA', 'x' FROM days",
        "SELECT '', as_of, 1.0D, 1.0D, 'AA', 'x' FROM days",
        "SELECT cast(null AS string), as_of, 1.0D, 1.0D, 'AA', 'x' FROM days",
        "SELECT repeat('x', 257), as_of, 1.0D, 1.0D, 'AA', 'x' FROM days",
        # Of another moment, and first by its features: it must not push out the row of the night's own.
        "SELECT 'F00', as_of - INTERVAL 1 DAY, 0.0D, 0.0D, 'AA', 'x' FROM days",
    )
    night.write_tables(FLIGHTS, query=" UNION ALL ".join([QUERY, *more]))
    begun = night.begin()
    night.run_all(begun, until="features")
    report = night.report(begun, "features-rows")
    assert report["rows"] == 20
    reasons = report["reasons"]
    assert isinstance(reasons, dict)
    assert sorted(reasons.values()) == [1, 1, 1, 2]
    folder = Path(str(begun["run"])).parent
    manifest = read_folder(night.bundle()).manifest
    assert (
        pq.read_schema(next((folder / "features").glob("*.parquet"))).names
        == features_schema(manifest.features).names
    )
    found = pq.read_table(folder / "features", filters=pc.field("entity") == "F00").to_pylist()
    assert [row["distance"] for row in found] == [100.0]


def test_numbers_at_the_edge_of_float32_are_the_apis(night: SmallNight, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_MAX_REJECT_SHARE", "1")
    monkeypatch.setenv("BATCH_HOT_FRACTION", "1.0")
    numbers = {
        "minus zero": -0.0,
        "tiny": 1e-46,
        "int": 16777217.0,
        "over": 3.4028236e38,
        "just over": 3.4028235e38,
    }
    night.write_tables(list(numbers), distance=list(numbers.values()))
    night.write_log(dict.fromkeys(numbers, 1))
    begun = night.begin()
    night.run_all(begun)
    # The two that float32 cannot hold are 422 when a caller brings them.
    assert set(night.stored(begun)) == {"minus zero", "tiny", "int"}
    folder = Path(str(begun["run"])).parent
    assert {row["entity"] for row in pq.read_table(folder / "rejects").to_pylist()} == {"over", "just over"}
    for name, schema in (("scores", SCORES), ("rejects", REJECTS), ("hotset", HOT_SET)):
        assert pq.read_schema(next((folder / name).glob("*.parquet"))).remove_metadata() == schema


def test_places_with_odd_names_and_addresses_relative_to_another_folder(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.folder = night.folder / "a b%20é"
    night.folder.mkdir()
    for name, value in night.environment().items():
        monkeypatch.setenv(name, value)
    night.write_tables(FLIGHTS)
    night.write_log({"F03": 2})
    night.bundle()
    monkeypatch.chdir(night.folder)
    monkeypatch.setenv("BATCH_DATA_URL", "data")
    begun = night.begin()
    monkeypatch.chdir("/")
    monkeypatch.setenv("BATCH_DATA_URL", str(night.data))
    night.run_all(begun)
    assert set(night.stored(begun)) == {"F03"}


def test_a_query_of_ones_own(night: SmallNight, tmp_path: Path) -> None:
    from batch_scoring.features.__main__ import main

    night.write_tables(FLIGHTS)
    own = tmp_path / "own.sql"
    own.write_text(QUERY + " WHERE s.entity < 'F05'")
    begun = night.begin()
    assert main(["--run", str(begun["run"]), "--query", str(own)]) == 0
    assert night.report(begun, "features")["rows"] == 5


def test_a_task_that_was_promised_a_gpu_and_has_none_fails(spark: SparkSession) -> None:
    def device(_: object) -> list[str]:
        return [task_device("cuda")]

    with pytest.raises(Exception, match="Spark gave the task no gpu"):
        spark.sparkContext.parallelize([1], 1).mapPartitions(device).collect()
