"""The request log as others read it: pandas and DuckDB, over files of this schema and of an older one."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.writer import LogWriter
from schemas.arrow import REQUEST_LOG
from schemas.names import requests_hour_path, requests_model_path
from schemas.retention import EVERYTHING, RETENTION_FILE
from tests.requestlog.endless import row

ROWS, OLDER_ROWS = 500, 70
# Columns that an older log may lack.
_LATER = ("confidence", "age_ms", "arm", "outputs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's log: a file that the writer made, and in another hour an older one."""
    buffer = LogBuffer(["m"], 10_000)
    data = tmp_path / "data"
    with LogWriter(buffer, tmp_path / "log", str(data), 3600, 1 << 30, 1 << 30, lambda columns, refused: None):
        for number in range(ROWS):
            buffer.add("m", row(number))
    [written] = data.rglob("*.parquet")
    rows = pq.ParquetFile(written).read().slice(0, OLDER_ROWS).drop_columns(_LATER)
    older = data / requests_hour_path("m", datetime(2025, 1, 1, tzinfo=UTC))
    older.mkdir(parents=True)
    pq.write_table(rows.replace_schema_metadata(), older / "older.parquet")
    log = data / requests_model_path("m")
    (log / RETENTION_FILE).write_bytes(EVERYTHING.to_bytes())  # no reader may stumble over it
    return log


def test_pandas(folder: Path) -> None:
    files = [pd.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))]
    assert sorted(map(len, files)) == [OLDER_ROWS, ROWS]
    # As a whole too; the schema is that of the writer.
    frame = pd.read_parquet(folder, schema=_with_partitions())
    assert len(frame) == ROWS + OLDER_ROWS
    assert frame["request_id"].nunique() == ROWS
    assert frame.groupby("date", observed=True).size().min() == OLDER_ROWS
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert frame["total_us"].gt(0).all()


def test_duckdb(folder: Path) -> None:
    with duckdb.connect() as connection:
        query = f"FROM read_parquet('{folder}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
        [(rows, ids, nulls)] = connection.sql(
            "SELECT count(*), count(DISTINCT request_id),"
            f" count(*) FILTER (date = '2025-01-01' AND age_ms IS NULL) {query}"
        ).fetchall()
        columns = connection.sql(query).columns
    assert (rows, ids, nulls) == (ROWS + OLDER_ROWS, ROWS, OLDER_ROWS)
    assert set(REQUEST_LOG.names) <= set(columns)


def _with_partitions() -> pa.Schema:
    return pa.schema([*REQUEST_LOG, pa.field("date", pa.string()), pa.field("hour", pa.string())])
