"""Feature files to splits and batches, bounded by rows and by bytes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.scoring.splits import plan_splits, read_split
from batch_scoring.scoring.task import RowGroup, Split


def features(folder: Path, name: str, rows: int, group: int, text: str = "x") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    table = pa.table({"entity": [f"{name}-{row}" for row in range(rows)], "text": [text] * rows})
    pq.write_table(table, path, row_group_size=group)
    return path


def read(split: Split, **bounds: int) -> list[pa.RecordBatch]:
    return list(read_split(split, ["entity", "text"], **bounds))


def test_splits_hold_every_row_once_the_largest_first(tmp_path: Path) -> None:
    features(tmp_path, "b.parquet", 9_000, 4_000)
    features(tmp_path, "a.parquet", 100, 100)
    features(tmp_path, "none.parquet", 0, 1)
    splits = plan_splits(str(tmp_path), cores=2)
    assert [split.rows for split in splits] == [4_000, 4_000, 1_100] or sorted(split.rows for split in splits) == [
        100,
        1_000,
        4_000,
        4_000,
    ]
    rows = [split.rows for split in splits]
    assert rows == sorted(rows, reverse=True)
    entities = [
        entity
        for split in splits
        for batch in read(split, most_rows=512, most_bytes=1 << 20)
        for entity in batch["entity"].to_pylist()
    ]
    assert len(entities) == len(set(entities)) == 9_100


def test_small_row_groups_make_one_split_and_a_large_run_has_some_for_each_core(tmp_path: Path) -> None:
    features(tmp_path, "small.parquet", 1_000, 10)
    assert len(plan_splits(str(tmp_path), cores=4)) == 1
    features(tmp_path, "large.parquet", 60_000, 1_000)
    assert len(plan_splits(str(tmp_path), cores=4)) >= 16


def test_no_features_make_no_split(tmp_path: Path) -> None:
    assert plan_splits(str(tmp_path), cores=2) == []


def test_batches_keep_to_rows_and_to_bytes_even_where_a_file_stores_a_long_text_once(tmp_path: Path) -> None:
    path = features(tmp_path, "wide.parquet", 400, 400, text="t" * 100_000)
    assert path.stat().st_size < 1_000_000
    split = Split(400, (RowGroup(str(path), 0),))
    batches = read(split, most_rows=1000, most_bytes=2_000_000)
    assert max(batch.nbytes for batch in batches) <= 2_000_000
    assert sum(batch.num_rows for batch in batches) == 400
    assert {batch.num_rows for batch in read(split, most_rows=7, most_bytes=1 << 30)} == {7, 400 % 7}
    assert all(batch.num_rows == 1 for batch in read(split, most_rows=7, most_bytes=1))


def test_columns_come_as_they_were_asked_for(tmp_path: Path) -> None:
    path = features(tmp_path, "a.parquet", 10, 10)
    batch = next(read_split(Split(10, (RowGroup(str(path), 0),)), ["entity"], 100, 1 << 20))
    assert batch.schema.names == ["entity"]
    np.testing.assert_array_equal(batch["entity"].to_pylist(), [f"a.parquet-{row}" for row in range(10)])
