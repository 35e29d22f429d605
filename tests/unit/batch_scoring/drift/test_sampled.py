"""Which rows of which files are the sample: by time, by source, and of any version of the log's schema."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.drift.sampled import BEFORE, GONE, WINDOW, Period, read_sampled
from tests.support.request_log import log_table, utc

START = utc("2026-11-27")
DAY = timedelta(days=1)
PERIODS = [Period(WINDOW, START, START + DAY), Period(BEFORE, START - 7 * DAY, START - 6 * DAY)]
SOURCES = ("precomputed", "cached", "live", "stale", "default", None)


def read(*paths: Path) -> list[dict[str, object]]:
    batches = [pa.record_batch({"path": [str(path) for path in paths]})]
    return [row for batch in read_sampled(batches, PERIODS) for row in batch.to_pylist()]


def test_rows_by_time_and_source(tmp_path: Path) -> None:
    moments = [START - timedelta(microseconds=1), START, START + DAY - timedelta(microseconds=1), START + DAY]
    moments += [START - 7 * DAY, START - 3 * DAY]
    rows = [
        {"time": at, "source": source, "entity": f"{place}", "outputs": [0.5, None], "inputs": inputs}
        for place, at in enumerate(moments)
        for source in SOURCES
        for inputs in ("{}", None)
    ]
    unsampled = [{"time": START, "source": "live", "entity": "no"}]
    pq.write_table(log_table([*rows, *unsampled]), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert {(row["entity"], row["period"]) for row in found} == {("1", WINDOW), ("2", WINDOW), ("4", BEFORE)}
    assert sorted(str(row["population"]) for row in found) == ["hits"] * 12 + ["tail"] * 6
    assert all(row["outputs"] == [0.5, None] for row in found)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_older_schemas(unit: str, tmp_path: Path) -> None:
    table = log_table([{"time": START, "source": "live", "outputs": [0.25, 1.0], "inputs": "{}"}] * 3)
    older = pa.table(
        {
            "outputs": table["outputs"].cast(pa.list_(pa.float64())),
            "time": table["time"].cast(pa.timestamp(unit)),  # without a zone, which is UTC
            "source": table["source"].dictionary_encode(),
            "inputs": table["inputs"].cast(pa.large_string()),
        }
    )
    pq.write_table(older, tmp_path / "older.parquet")
    pq.write_table(table.drop_columns(["inputs", "outputs"]), tmp_path / "oldest.parquet")
    pq.write_table(table.set_column(0, "time", pa.array(["noon"] * 3)), tmp_path / "other.parquet")
    found = read(*(tmp_path / f"{name}.parquet" for name in ("older", "oldest", "other")))
    assert [(row["outputs"], row["inputs"], row["version"]) for row in found] == [([0.25, 1.0], "{}", None)] * 3


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    damaged, gone = read(tmp_path / "no.parquet", tmp_path / "gone.parquet")
    assert (damaged["entity"], str(damaged["error"])[:8]) == (str(tmp_path / "no.parquet"), "damaged:")
    assert (gone["entity"], gone["error"]) == (str(tmp_path / "gone.parquet"), GONE)
