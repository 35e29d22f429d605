"""Anybody's log: ids come back as they were written, whatever the file; the rest is counted or refused."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.hotset.columns import find_columns
from batch_scoring.hotset.log_reading import Read, log_source, read_log
from batch_scoring.hotset.sampling import hit_rate_error, key_hash, sampled
from batch_scoring.hotset.trace import BadLog, Trace

ODD = [
    "7",
    "07",
    "007",
    "7.0",
    "1e5",
    "100000",
    "+7",
    "9007199254740992",
    "9007199254740993",
    "NA",
    "null",
    "é",
    " a",
]


def read(path: Path, **columns: str) -> Read:
    source = log_source(str(path))
    given = {"entity": None, "time": None, "order": None, **columns}
    return read_log(source, find_columns(source.types, **given, is_text=source.is_csv), None)


def names(found: Read) -> list[str]:
    return [found.trace.names[code] for code in found.trace.codes]


def test_odd_ids_survive_csv_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("key\n" + "\n".join(ODD) + "\n", encoding="utf-8")
    pq.write_table(pa.table({"key": ODD}), tmp_path / "log.parquet")
    pq.write_table(pa.table({"key": pa.array(ODD).dictionary_encode()}), tmp_path / "coded.parquet")
    for file in ("log.csv", "log.parquet", "coded.parquet"):
        assert names(read(tmp_path / file)) == ODD, file


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32(), pa.dictionary(pa.int32(), pa.int64())])
def test_whole_numbers_are_their_digits(tmp_path: Path, kind: pa.DataType) -> None:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    ids = [7, 2**31 - 1] if value == pa.int32() else [7, 9007199254740993, 2**63 - 1]
    column = pa.array(ids, value)
    pq.write_table(
        pa.table({"id": column.dictionary_encode() if kind != value else column}), tmp_path / "log.parquet"
    )
    assert names(read(tmp_path / "log.parquet")) == [str(one) for one in ids]


def test_fractions_are_no_ids(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1.5]}), tmp_path / "log.parquet")
    with pytest.raises(BadLog, match="must be text or whole numbers"):
        read(tmp_path / "log.parquet")


NOON = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([NOON], pa.timestamp("ns", tz="UTC")),
        pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")),
        pa.array([int(NOON.timestamp())]),
        pa.array([int(NOON.timestamp() * 1000)]),
        pa.array([NOON.timestamp()]),
        pa.array(["2026-11-28T12:00:00Z"]),
        pa.array(["2026-11-28 12:00:00"]),
        pa.array(["2026-11-28T13:00:00+01:00"]),
        pa.array([str(int(NOON.timestamp()))]),
    ],
    ids=str,
)
def test_one_moment_in_many_guises(tmp_path: Path, times: pa.Array) -> None:
    pq.write_table(pa.table({"entity": ["a"], "time": times}), tmp_path / "log.parquet")
    assert read(tmp_path / "log.parquet", time="time").trace.times_s.tolist() == [NOON.timestamp()]


def test_rows_that_cannot_be_read_are_set_aside_and_counted(tmp_path: Path) -> None:
    long = "x" * 257
    rows = ["2026-11-28T12:00:00Z,a", "yesterday,b", ",c", "2026-11-28T12:00:01Z,", f"2026-11-28T12:00:02Z,{long}"]
    (tmp_path / "log.csv").write_text("\n".join(["time,entity", *rows, ""]))
    found = read(tmp_path / "log.csv")
    assert names(found) == ["a"]
    assert found.rows == 5
    assert found.aside == {"no time": 2, "no entity": 1, "entity over 256 bytes": 1}


def test_rows_are_put_in_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"entity": ["c", "a", "b"], "seq": [30, 10, 20]}), tmp_path / "log.parquet")
    assert names(read(tmp_path / "log.parquet")) == ["a", "b", "c"]
    pq.write_table(pa.table({"entity": ["c", "a", "b"], "time": [30, 10, 20]}), tmp_path / "log.parquet")
    assert names(read(tmp_path / "log.parquet")) == ["a", "b", "c"]


def test_a_folder_is_one_log(tmp_path: Path) -> None:
    for number, folder in enumerate(("hour=00", "hour=01")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"entity": [f"0{number}"], "time": [number]}), tmp_path / folder / "a.parquet")
    (tmp_path / "_writing.parquet").write_bytes(b"half")
    assert names(read(tmp_path)) == ["00", "01"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["StockCode", "InvoiceDate", "Quantity"], "entity is column StockCode; time is column InvoiceDate"),
        (["ts", "user_id"], "entity is column user_id; time is column ts"),
        (["key"], "entity is column key; in the file's order"),
        (["seq", "sku"], "entity is column sku; order is column seq"),
        (["shop_code", "amount"], "entity is column shop_code; in the file's order"),
    ],
)
def test_guesses_are_said(columns: list[str], said: str) -> None:
    assert find_columns(dict.fromkeys(columns, pa.string()), None, None, None, is_text=True).said == said


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        (["x", "y"], {}, "which column names the entity"),
        (["entity"], {"entity": "product"}, "no column product: it has entity"),
        (["entity", "t", "n"], {"time": "t", "order": "n"}, "not both"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(columns: list[str], given: dict[str, str], message: str) -> None:
    names = {"entity": None, "time": None, "order": None, **given}
    with pytest.raises(BadLog, match=message):
        find_columns(dict.fromkeys(columns, pa.string()), **names, is_text=True)


def test_files_that_are_no_log_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"no Parquet")
    with pytest.raises(BadLog, match="cannot be read"):
        log_source(str(tmp_path / "log.parquet"))
    with pytest.raises(BadLog, match="does not exist"):
        log_source(str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadLog, match="holds no Parquet or CSV"):
        log_source(str(tmp_path / "empty"))


def test_a_sample_takes_whole_entities_and_about_its_share() -> None:
    codes = np.random.default_rng(1).integers(0, 20_000, 100_000)
    trace = Trace.of(codes, [str(number) for number in range(20_000)], np.arange(100_000.0))
    found, share = sampled(trace, 20_000)
    assert share == pytest.approx(0.2)
    assert found.entities == pytest.approx(4000, rel=0.05)
    counts = np.bincount(codes, minlength=20_000)
    assert np.bincount(found.codes).tolist() == [counts[int(name)] for name in found.names]
    assert key_hash("7") != key_hash("07")


def test_the_error_of_a_sampled_hit_rate_is_as_it_scatters() -> None:
    random = np.random.default_rng(2)
    codes = np.repeat(np.arange(5000), random.zipf(2.2, 5000).clip(max=50))
    is_hot = random.random(5000) < 0.3
    rates, errors = [], []
    for _ in range(200):
        drawn = (random.random(5000) < 0.1)[codes]
        kept = np.unique(codes[drawn], return_inverse=True)[1]
        hits = is_hot[codes[drawn]]
        rates.append(hits.mean())
        errors.append(hit_rate_error(kept, hits, 0.1))
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.2)
    assert hit_rate_error(codes, is_hot[codes], 1.0) == 0
