"""Compaction as a Spark job: a task for each hour, the same rows, and what a failed task leaves to the next."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from batch_scoring.requestlog.__main__ import main
from tests.support.request_log import hour_folder, log_table, utc, write_log

pytestmark = pytest.mark.spark
MODEL, AT, HOURS, FILES = "007", utc("2026-11-27 05:00"), 3, 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for hour in range(HOURS):
        at = AT + timedelta(hours=hour)
        for number in range(FILES):
            rows = log_table({"time": at, "request_id": f"{hour}-{number}-{i}", "entity": "é"} for i in range(9))
            write_log(tmp_path, MODEL, rows, name=f"w{number}")
    return tmp_path


def rows_of(root: Path) -> Counter[str]:
    table = ds.dataset(root / "requests", format="parquet").to_table(columns=["request_id"])
    return Counter(table["request_id"].to_pylist())


def test_each_hour_becomes_one_file_and_again_begins_no_job(
    spark: SparkSession, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, call = rows_of(root), ["compact", "--data-url", str(root)]
    jobs = spark.sparkContext.statusTracker()
    assert main(call) == 0
    assert "007: 3 hours compacted, 12 files became 3, 108 rows merged" in capsys.readouterr().out
    assert rows_of(root) == before
    began = set(jobs.getJobIdsForGroup())
    assert main(call) == 0
    assert "007: 0 hours compacted" in capsys.readouterr().out
    assert set(jobs.getJobIdsForGroup()) == began


def test_a_task_that_fails_costs_its_hour_alone_until_the_next_run(
    spark: SparkSession, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, call = rows_of(root), ["compact", "--data-url", str(root)]
    in_the_way = root / "requests-compacting" / f"model={MODEL}" / "date=2026-11-27" / "hour=06"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("where this hour's folder is to be staged")
    assert main(call) == 1
    assert "error: FileExistsError" in capsys.readouterr().err
    assert rows_of(root) == before
    assert len(list(hour_folder(root, MODEL, AT + timedelta(hours=1)).glob("*.parquet"))) == FILES
    in_the_way.unlink()
    assert main(call) == 0
    assert len(list((root / "requests").glob("**/*.parquet"))) == HOURS
    assert rows_of(root) == before
