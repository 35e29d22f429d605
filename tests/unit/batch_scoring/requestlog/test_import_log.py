"""A foreign log comes in row for row, ids digit for digit, and twice is once."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from batch_scoring.requestlog.__main__ import main
from schemas.arrow import REQUEST_LOG

IDS = ["7", "07", "1e5", "9007199254740993", "é", "NA", "null"]


def times(count: int) -> list[datetime]:
    return [datetime(2026, 11, 27, 22 + i % 2, 30, tzinfo=UTC) for i in range(count)]


def imported(root: Path, model: str) -> pa.Table:
    folder = root / "requests" / f"model={model}"
    return ds.dataset(folder, schema=REQUEST_LOG, format="parquet").to_table()


def test_parquet_comes_in_and_twice_is_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "log.parquet"
    pq.write_table(pa.table({"when": times(7), "id": IDS}), source)
    call = ["import", str(source), "--model", "007", "--data-url", str(tmp_path), "--time-column", "when"]
    for _ in range(2):
        assert main([*call, "--entity-column", "id"]) == 0
    assert "7 rows imported" in capsys.readouterr().out
    table = imported(tmp_path, "007")
    assert sorted(table["entity"].to_pylist()) == sorted(IDS)
    assert table["source"].null_count == 7
    hours = sorted(path.name for path in (tmp_path / "requests/model=007/date=2026-11-27").iterdir())
    assert hours == ["hour=22", "hour=23"]
    assert not list(tmp_path.glob("requests/model=007/_import*"))


def test_csv_ids_stay_text(tmp_path: Path) -> None:
    source = tmp_path / "log.csv"
    rows = "\n".join(f"{time:%Y-%m-%d %H:%M:%S},{entity}" for time, entity in zip(times(7), IDS, strict=True))
    source.write_text(f"time,entity\n{rows}\n", encoding="utf-8")
    assert main(["import", str(source), "--model", "delay", "--data-url", str(tmp_path)]) == 0
    table = imported(tmp_path, "delay")
    assert sorted(table["entity"].to_pylist()) == sorted(IDS)
    assert sorted(set(table["time"].to_pylist())) == sorted(set(times(7)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"time": times(1), "entity": [7]}), "not text"),
        (pa.table({"time": times(1), "entity": [""]}), "empty"),
        (pa.table({"time": ["then"], "entity": ["a"]}), "no time"),
        (pa.table({"moment": times(1), "entity": ["a"]}), "has no column time"),
    ],
)
def test_what_is_no_log_is_refused_and_leaves_nothing(
    tmp_path: Path, table: pa.Table, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "log.parquet"
    pq.write_table(table, source)
    assert main(["import", str(source), "--model", "delay", "--data-url", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("import-*.parquet"))


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "log.parquet"
    source.write_bytes(b"nonsense")
    assert main(["import", str(source), "--model", "delay", "--data-url", str(tmp_path)]) == 2
    assert "cannot be read as Parquet" in capsys.readouterr().err
