"""Many values packed at once, and many buckets digested at once: the same bytes as one by one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.checksum import add, bucket_digest
from batch_scoring.score_files import write_part
from schemas.arrow import SCORES
from schemas.codec import pack_matrix, pack_rows
from schemas.keys import bucket_of, field_of

ENTITIES = [b"UA1545-EWR-IAH", b"", b"\0", b"\0escaped", "é".encode(), b"x" * 64, b"x" * 65, b"y" * 256]


@pytest.mark.parametrize("width", [1, 2, 12, 40])
@pytest.mark.parametrize("count", [0, 1, len(ENTITIES)])
def test_a_matrix_has_the_bytes_of_the_rows(count: int, width: int) -> None:
    outputs = np.random.default_rng(width).normal(size=(count, width)).astype(np.float32)
    matrix = pack_matrix(ENTITIES[:count], 65_535, (1 << 48) - 1, outputs)
    assert [row.tobytes() for row in matrix] == pack_rows(ENTITIES[:count], 65_535, (1 << 48) - 1, outputs)


def test_columns_of_a_wider_array_are_packed_as_they_are() -> None:
    outputs = np.arange(24, dtype=np.float32).reshape(8, 3)[:, ::2]
    assert [row.tobytes() for row in pack_matrix(ENTITIES, 7, 5, outputs)] == pack_rows(ENTITIES, 7, 5, outputs)


@pytest.mark.parametrize(
    ("ordinal", "outputs", "message"),
    [
        (65_536, np.zeros((1, 1), np.float32), "does not fit the codec"),
        (7, np.zeros((2, 1), np.float32), "for 1 entities"),
        (7, np.full((1, 1), np.nan, np.float32), "not finite"),
    ],
)
def test_what_cannot_be_packed_is_refused(ordinal: int, outputs: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack_matrix([b"a"], ordinal, 0, outputs)


def test_a_part_is_sorted_and_its_checksum_is_of_its_buckets(tmp_path: Path) -> None:
    entities = [entity for entity in ENTITIES if entity] + [b"e%d" % number for number in range(300)]
    buckets = [bucket_of(entity, 7) for entity in entities]
    values = [b"value of " + entity for entity in entities]
    table = pa.table([[entity.decode() for entity in entities], buckets, values], schema=SCORES)
    part, checksum = write_part(str(tmp_path), "part-00000.parquet", table)
    written = pq.read_table(tmp_path / part.name)
    assert written.schema.remove_metadata() == SCORES
    places = list(zip(written["bucket"].to_pylist(), written["entity"].to_pylist(), strict=True))
    keys = [(bucket, field_of(entity.encode())) for bucket, entity in places]
    assert keys == sorted(keys)
    assert (part.rows, part.first_bucket, part.last_bucket) == (len(entities), 0, 6)
    total = 0
    rows = written.to_pylist()
    for number in range(7):
        mine = sorted((field_of(row["entity"].encode()), row["packed"]) for row in rows if row["bucket"] == number)
        total = add(total, bucket_digest(number, *map(list, zip(*mine, strict=True))))
    assert checksum == total


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("bucket", pa.array(["many", "few"])),
        ("packed", pa.array([1.5, 2.5])),
        ("entity", pa.array([[1], [2]])),
    ],
)
def test_rows_that_do_not_have_the_declared_columns_are_refused_before_a_file_is_there(
    tmp_path: Path, name: str, column: pa.Array
) -> None:
    table = pa.table([["a", "b"], pa.array([0, 1], pa.int32()), [b"x", b"y"]], schema=SCORES)
    refused = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError)
    with pytest.raises(refused):
        write_part(str(tmp_path), "part-0.parquet", table.set_column(SCORES.get_field_index(name), name, column))
    with pytest.raises(refused):
        write_part(str(tmp_path), "part-0.parquet", table.drop_columns([name]))
    assert list(tmp_path.iterdir()) == []
