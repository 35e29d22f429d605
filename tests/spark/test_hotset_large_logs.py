"""Logs that go through Spark: the same choice as in memory, and the same sample, weights and counts."""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from batch_scoring.hotset.__main__ import main
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.sampling import hash_sql, key_hash
from tests.support.night import AS_OF, SmallNight

pytestmark = [pytest.mark.spark, pytest.mark.long]

ODD_IDS = ["7", "07", "007", "7.0", "1e5", "9007199254740993", "NA", "é", " a", "a/b"]


def test_sampling_and_weights_are_the_same_in_spark(spark: SparkSession) -> None:
    hashes = (
        spark.createDataFrame([(name,) for name in ODD_IDS], "e string")
        .select("e", F.expr(hash_sql("e")))
        .collect()
    )
    assert {row[0]: row[1] for row in hashes} == {name: key_hash(name) for name in ODD_IDS}
    ages = np.array([0.01, 0.99, 1.0, 5.99, 6.0, 6.5, 7.0, 13.2])
    for profile in (Profile(2.0), Profile(28.0, 7)):
        rows = spark.createDataFrame([(float(age),) for age in ages], "age double").select(
            F.expr(profile.sql("age"))
        )
        assert [row[0] for row in rows.collect()] == pytest.approx(profile.weights(ages).tolist())


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve days of 300 entities, some with odd ids; one row has no entity, one no time, 20 are there twice."""
    random = np.random.default_rng(7)
    weights = 1 / np.arange(1, 301)
    keys = random.choice(300, 4000, p=weights / weights.sum())
    names = [ODD_IDS[key] if key < len(ODD_IDS) else f"e{key}" for key in keys] + [None, "late"]
    times_us = [
        *(1.79e15 + np.sort(random.random(4000)) * 12 * 86400e6).astype(np.int64).tolist(),
        int(1.79e15),
        None,
    ]
    folder = tmp_path_factory.mktemp("log")
    # Odd places have no id, so that nothing tells whether they are copies.
    ids = [None if place % 2 else f"r{place}" for place in range(len(names))]
    times = pa.array(times_us, pa.timestamp("us", tz="UTC"))
    table = pa.table({"entity": names, "time": times, "id": ids})
    pq.write_table(table.slice(0, 2500), folder / "a.parquet")
    pq.write_table(pa.concat_tables([table.slice(2500), table.slice(0, 40)]), folder / "b.parquet")
    return folder


@pytest.mark.parametrize("command", ["choose", pytest.param("backtest", marks=pytest.mark.long)])
def test_spark_says_what_memory_says(
    spark: SparkSession, log: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for engine in ("local", "spark"):
        words = ["--engine", engine, "--out", str(tmp_path / engine), "--json", "--quiet"]
        words += ["--entity-column", "entity", "--id-column", "id"]
        assert main([command, "--log", str(log), *words]) == 0
        found[engine] = json.loads(capsys.readouterr().out)
    for engine, said in found.items():
        no_time = "no time or order" if engine == "spark" else "no time"
        assert said["log"]["rows_set_aside"] == {"no entity": 1, no_time: 1, "duplicated": 20}
        assert (said["log"]["rows"], said["log"]["requests"]) == (4042, 4020)
    names = ("declined", "slots", *(("chosen", "split", "eviction") if command == "choose" else ("lru", "choice")))
    assert [found["spark"][name] for name in names] == pytest.approx(
        [found["local"][name] for name in names], abs=0.02
    )
    if command == "choose":
        chosen = [pq.read_table(tmp_path / engine / "hotset.parquet") for engine in ("local", "spark")]
        assert chosen[0]["entity"].to_pylist() == chosen[1]["entity"].to_pylist()
        assert chosen[0]["weight"].to_pylist() == pytest.approx(chosen[1]["weight"].to_pylist())
        assert set(ODD_IDS[:6]) <= set(chosen[1]["entity"].to_pylist())


@pytest.mark.long
def test_csv_and_an_order_go_through_spark_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(8)
    keys = random.zipf(1.5, 3000) % 500
    (tmp_path / "log.csv").write_text(
        "seq,id\n" + "".join(f"{place},{key:04d}\n" for place, key in enumerate(keys))
    )
    words = ["--engine", "spark", "--out", str(tmp_path / "out"), "--json", "--quiet"]
    assert main(["choose", "--log", str(tmp_path / "log.csv"), *words]) == 0
    assert json.loads(capsys.readouterr().out)["log"]["order_column"] == "seq"
    chosen = pq.read_table(tmp_path / "out" / "hotset.parquet")["entity"].to_pylist()
    assert "0001" in chosen


def test_a_log_without_an_order_is_refused_by_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text("id\na\nb\n")
    assert (
        main(["choose", "--log", str(tmp_path / "log.csv"), "--engine", "spark", "--out", str(tmp_path / "o")])
        == 2
    )
    assert "give --time-column" in capsys.readouterr().err


def test_a_night_says_the_requests_of_its_fullest_minute(night: SmallNight) -> None:
    night.write_tables(["F1", "F2"])
    night.write_log({"F1": 5, "F2": 3})
    night.write_log({"F1": 2}, at=AS_OF - timedelta(days=2))
    begun = night.begin()
    night.run_all(begun, until="select")
    assert night.report(begun, "select")["peak_minute_requests"] == 8
