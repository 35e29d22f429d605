"""Which rows are hot, by keys that workers share."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.scoring.hot import are_hot, hot_keys, write_hot_keys
from schemas.arrow import HOT_SET

ODD = ["7", "07", "007", "7.0", "a\0b", "\0", "é", "e\u0301", "x" * 256, "urn:x:AQ+/=="]


def written(folder: Path, hot: list[str]) -> str:
    (folder / "hotset").mkdir(parents=True)
    (folder / "work").mkdir()
    table = pa.table({"entity": hot, "weight": np.ones(len(hot))}, schema=HOT_SET)
    pq.write_table(table, folder / "hotset" / "part-0.parquet")
    write_hot_keys(str(folder / "hotset"), str(folder / "work"))
    return str(folder / "work")


def test_exactly_the_hot_are_hot_whatever_their_ids(tmp_path: Path) -> None:
    many = [f"e{number}" for number in range(20_000)]
    hot = ODD[::2] + many[::3]
    work = written(tmp_path, hot)
    asked = many + ODD
    found = are_hot(pa.array(asked), hot_keys(work))
    assert [entity for entity, is_hot in zip(asked, found, strict=True) if is_hot] == many[::3] + ODD[::2]


def test_of_no_hot_entity_none_is_hot(tmp_path: Path) -> None:
    work = written(tmp_path, [])
    assert not are_hot(pa.array(ODD), hot_keys(work)).any()
    assert len(are_hot(pa.array([], pa.string()), hot_keys(work))) == 0


def test_keys_on_disk_are_mapped_and_not_copied_into_each_worker(tmp_path: Path) -> None:
    assert isinstance(hot_keys(written(tmp_path, ODD)), np.memmap)
