"""The night's choice on real Spark: rows that do not count, logs too large to hold, and the set it may lose to."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from batch_scoring.files import dataset, write_parquet
from batch_scoring.hotset.choosing import Room
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.fit import unfitted
from batch_scoring.hotset.log_files import log_files
from batch_scoring.hotset.nightly import log_rows
from batch_scoring.hotset.nightly.large_log import LargeLog
from batch_scoring.hotset.nightly.log import Log
from batch_scoring.hotset.nightly.small_log import SmallLog
from batch_scoring.hotset.profiles import Profile
from batch_scoring.hotset.sampling import trace_of
from schemas.arrow import HOT_SET
from schemas.hotset_report import HotSetReport, Used
from schemas.names import HOTSET_PICTURE_FILE, HOTSET_REPORT_FILE
from tests.support.night import AS_OF, SmallNight
from tests.support.request_log import hour_folder, log_table, write_log

pytestmark = pytest.mark.spark

FLIGHTS = [f"F{i:02d}" for i in range(40)]
BEGIN = AS_OF - timedelta(days=28)
HOUR = timedelta(hours=1)


def faulty_rows(folder: Path) -> None:
    """Seven requests that count, and rows of every kind that do not."""
    at = AS_OF - timedelta(days=2)
    good = {"time": at, "entity": "a", "request_id": "one"}
    imported = {"time": at, "entity": "b", "request_id": "imported"}
    rows = [
        *[good] * 3,  # written thrice, asked for once
        good | {"entity": "b"},
        good | {"time": at + timedelta(microseconds=1)},
        good | {"request_id": "two", "status": 304},
        *[imported] * 2,
        good | {"status": 503},
        good | {"entity": None, "status": 404},
        good | {"entity": ""},
        good | {"entity": None},
        good | {"entity": "é" * 129},
    ]
    write_log(folder, "tiny", log_table(rows))
    late = log_table([good | {"time": at - 3 * HOUR}, good | {"time": at - HOUR / 2, "request_id": "grace"}])
    pq.write_table(late, hour_folder(folder, "tiny", at) / "late.parquet")
    ahead = log_table([good | {"time": at + 3 * HOUR}])
    pq.write_table(ahead, hour_folder(folder, "tiny", at) / "ahead.parquet")
    outside = log_table([good | {"time": AS_OF + HOUR / 2}])
    # The night's hour has begun before its moment.
    pq.write_table(outside, hour_folder(folder, "tiny", AS_OF - HOUR / 2) / "outside.parquet")
    newer = log_table([good, good]).replace_schema_metadata({"hotset.request_log": "2"})
    pq.write_table(newer, hour_folder(folder, "tiny", at) / "newer.parquet")


def test_rows_that_do_not_count_are_counted_by_reason(spark: SparkSession, tmp_path: Path) -> None:
    faulty_rows(tmp_path)
    files = log_files(str(tmp_path), "tiny", BEGIN, AS_OF)
    url = str(tmp_path / "rows")
    log_rows.write_rows(spark, url, files, str(tmp_path), BEGIN, AS_OF)
    stored = spark.read.parquet(url)
    found = log_rows.facts(stored)
    assert found == log_rows.table_facts(log_rows.conformed(dataset(url).to_table()))
    assert (found.requests, found.not_answered, found.outside) == (7, 2, 1)
    assert found.set_aside == {
        "duplicated": 2,
        "no entity": 2,
        "entity over 256 bytes": 1,
        "late": 1,
        "ahead of its hour": 1,
    }
    requests = {
        row["entity"]: row[1] for row in log_rows.good_requests(stored).groupBy("entity").sum("requests").collect()
    }
    assert requests == {"a": 4, "b": 3}
    assert files.unknown_rows == 2
    assert ["schema version 2" in reason for reason in files.aside.values()] == [True]
    # It is a log to a newer program, which may be running already.
    assert (hour_folder(tmp_path, "tiny", AS_OF - timedelta(days=2)) / "newer.parquet").exists()
    accounted = found.requests + found.not_answered + found.outside + sum(found.set_aside.values())
    assert accounted == files.rows


@pytest.fixture(scope="module")
def both_ways(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Log]:
    """The same 3,000 requests of 12 days, held and in Spark. A fifth of the entities have no features."""
    folder = tmp_path_factory.mktemp("both")
    random = np.random.default_rng(9)
    keys = random.zipf(1.3, 3000) % 200
    begin_s = AS_OF.timestamp() - 12 * 86400
    times_us = ((begin_s + np.sort(random.random(3000)) * 12 * 86400) * 1e6).astype(np.int64)
    rows = pa.table(
        {
            "reason": pa.nulls(3000, pa.string()),
            "entity": [f"e{key:03d}" for key in keys],
            "time_us": times_us,
            "requests": random.integers(1, 3, 3000),
            "copies": np.ones(3000, np.int64),
        }
    )
    pq.write_table(rows, folder / "rows.parquet")
    features = folder / "features"
    features.mkdir()
    pq.write_table(pa.table({"entity": [f"e{key:03d}" for key in range(250) if key % 5]}), features / "a.parquet")
    facts = log_rows.table_facts(rows)
    as_of_s = AS_OF.timestamp()
    small = SmallLog(trace_of(log_rows.table_requests(rows)), facts, dataset(str(features)), as_of_s, 86400.0)
    stored, known = (spark.read.parquet(str(folder / name)) for name in ("rows.parquet", "features"))
    return small, LargeLog(spark, stored, known, as_of_s, 86400.0)


def test_a_log_in_spark_says_what_a_held_one_says(both_ways: tuple[Log, Log]) -> None:
    fit = replace(unfitted(4.0, 0.9), profile=Profile(7.0, 7))
    said = []
    for log in both_ways:
        log.count(fit, 9)
        choice = log.choose(CostModel(), Room(30, 30, 2500.0, 100), ("e249",), ("e001",))
        hot = choice.entities
        traffic = log.traffic(hot, ["e001", "e002"], AS_OF.timestamp() - 86400)
        said.append((log.facts, log.known_of(["e005", "e007", "e001"]), hot, log.weights_of(["e001", "never"])))
        said[-1] += (choice.expected.tolist(), choice.total_expected, log.curve(200), traffic, choice.next_step)
    small, large = said
    assert small[:3] == large[:3]
    assert small[2][0] == "e249"
    assert "e001" not in small[2]
    assert 20 < len(small[2]) < 30
    for one, other in zip(small[3:6], large[3:6], strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert small[6][1] == large[6][1]
    assert np.array(small[6][0]) == pytest.approx(np.array(large[6][0]))
    assert small[7].coverage_weighted == pytest.approx(large[7].coverage_weighted)
    blank = {"weight": 0.0, "hot_weight": 0.0}
    assert replace(small[7], **blank) == replace(large[7], **blank)
    assert small[8] == pytest.approx(large[8])


def test_both_take_the_same_sample(both_ways: tuple[Log, Log]) -> None:
    (small, unknown, share), (large, others, other_share) = (log.sample(1500) for log in both_ways)
    assert share == other_share < 1
    assert small.names == large.names
    assert small.codes.tolist() == large.codes.tolist()
    assert small.times_s.tolist() == large.times_s.tolist()
    assert others == unknown & set(small.names)


def write_turning_log(night: SmallNight) -> None:
    """Six days of F00 to F09, and a last one of F10 to F19, few in an hour: what is written back is gone again."""
    random = np.random.default_rng(3)
    rows = []
    for number in range(1400):
        back = timedelta(days=7 * (1 - number / 1400)) - timedelta(seconds=1)
        favourite = random.integers(0, 10) + (10 if back < timedelta(days=1) else 0)
        rows.append({"time": AS_OF - back, "entity": f"F{favourite:02d}", "request_id": f"r{number}"})
    write_log(night.data, night.model, log_table(rows))


def put_in_service(night: SmallNight, entities: Sequence[str], weight: float = 20.0) -> str:
    """A generation of the night before holds these; nobody loaded it."""
    older = night.begin("older", AS_OF - timedelta(days=1))
    folder = Path(str(older["run"])).parent
    table = pa.table({"entity": list(entities), "weight": [weight] * len(entities)}, schema=HOT_SET)
    write_parquet(str(folder / "hotset"), HOT_SET, [table])
    live = {"version": "1", "bundle_url": "b", "bundle_digest": "a" * 64, "generation": older["generation"]}
    (folder.parent / "live.json").write_bytes(orjson.dumps({**live, "order": [1, 1]}))
    return str(older["generation"])


def choose(night: SmallNight, begun: dict[str, object]) -> tuple[list[str], HotSetReport]:
    folder = Path(str(begun["run"])).parent
    (folder / "report-select.json").unlink(missing_ok=True)
    assert night.step("select", begun) == 0
    report = HotSetReport.read((folder / HOTSET_REPORT_FILE).read_bytes())
    assert (folder / HOTSET_PICTURE_FILE).read_bytes().startswith(b"\x89PNG")
    assert not (folder / "request-rows").exists()
    return pq.read_table(folder / "hotset")["entity"].to_pylist(), report


@pytest.mark.long  # what decides it is in tests/unit too
def test_a_choice_that_loses_to_yesterdays_set_is_not_used(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BATCH_HOT_FRACTION", "0.25")
    night.write_tables(FLIGHTS)
    write_turning_log(night)
    # What the choice would have known a day ago said nothing of the last day; somebody else did.
    generation = put_in_service(night, [*FLIGHTS[10:19], "gone"])
    (night.folder / "must").write_text("F30\nnobody\n")
    (night.folder / "never").write_text("F12\n")
    monkeypatch.setenv("BATCH_MANDATORY_URL", str(night.folder / "must"))
    monkeypatch.setenv("BATCH_BLOCK_URL", str(night.folder / "never"))
    begun = night.begin()
    assert night.step("features", begun) == 0

    hot, report = choose(night, begun)
    assert report.gate.used is Used.YESTERDAY
    assert generation in report.gate.reason
    assert generation in str(night.report(begun, "select")["reason"])
    assert f"yesterday: the set of {generation} is kept" in caplog.text
    assert hot == ["F30", *FLIGHTS[10:12], *FLIGHTS[13:19]]
    assert report.gate.choice_hit_rate is not None
    assert report.gate.yesterday_hit_rate is not None
    assert report.gate.choice_hit_rate < report.gate.yesterday_hit_rate - 0.5
    assert report.backtest
    assert report.backtest.windows[-1].hit_rates["yesterday"] == report.gate.yesterday_hit_rate
    assert (report.chosen.mandatory, report.chosen.mandatory_unknown_named, report.chosen.blocked) == (
        1,
        ["nobody"],
        1,
    )
    assert report.yesterday
    assert (report.yesterday.requests, report.yesterday.expected_requests) == (200, 200.0)
    assert 150 < report.yesterday.realised_requests < 200

    put_in_service(night, FLIGHTS[30:])
    hot, report = choose(night, begun)
    assert report.gate.used is Used.CHOICE
    assert hot[0] == "F30"
    assert set(hot[1:]) <= {*FLIGHTS[:12], *FLIGHTS[13:20]}
    assert 5 < len(hot) <= report.budget.precomputed_slots <= 10
