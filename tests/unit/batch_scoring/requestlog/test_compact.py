"""Compaction: each row exactly once for whoever reads, while it runs and wherever it is killed."""

import os
import sys
import threading
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from batch_scoring.requestlog.__main__ import main
from batch_scoring.requestlog.compact import Compacted, compact_model
from online.api.requestlog.parquet import ParquetFolder
from online.api.requestlog.stream import LogStream, claim
from schemas.arrow import REQUEST_LOG
from tests.support.request_log import hour_folder, log_table, utc, write_log

MODEL = "007"
AT = utc("2026-11-27 05:00")
NOW = utc("2026-11-28")
MAX_BYTES = 1 << 28
LOCKS = {f"model={MODEL}.lock", f"model={MODEL}.turn"}


def some(name: str, rows: int, at: datetime = AT) -> pa.Table:
    return log_table({"time": at, "request_id": f"{name}-{i}", "entity": f"é{i}"} for i in range(rows))


def write_many(root: Path, files: int = 6, at: datetime = AT) -> Counter[str]:
    for number in range(files):
        write_log(root, MODEL, some(f"{at:%H}-{number}", 5 + number, at), name=f"w{number}")
    return rows_of(root)


def rows_of(root: Path) -> Counter[str]:
    """Rows as a reader has them who lists folders, by request id."""
    table = ds.dataset(root / "requests", format="parquet").to_table(columns=["request_id"])
    return Counter(table["request_id"].to_pylist())


def left_beside(root: Path) -> set[str]:
    return {path.name for path in root.glob("requests-compacting/**/*") if path.is_file()}


def names(root: Path, at: datetime = AT) -> list[str]:
    return sorted(path.name for path in hour_folder(root, MODEL, at).glob("*.parquet"))


def compact(root: Path, now: datetime = NOW, max_bytes: int = MAX_BYTES) -> Compacted:
    return compact_model(root, MODEL, now, timedelta(hours=1), max_bytes)


def test_many_files_become_one_and_again_is_nothing(tmp_path: Path) -> None:
    before = write_many(tmp_path)
    done = compact(tmp_path)
    assert (done.hours, done.files_before, done.files_after, done.rows) == (1, 6, 1, before.total())
    assert rows_of(tmp_path) == before
    (name,) = names(tmp_path)
    schema = pq.read_schema(hour_folder(tmp_path, MODEL, AT) / name)
    assert schema.equals(REQUEST_LOG)
    assert schema.metadata == REQUEST_LOG.metadata
    assert compact(tmp_path) == Compacted()
    assert names(tmp_path) == [name]
    # DuckDB's ** looks into folders that begin with an underscore too, and other tools into the whole root.
    found = duckdb.sql(f"SELECT count(*) FROM read_parquet('{tmp_path}/**/*.parquet')").fetchall()
    assert found == [(before.total(),)]


def test_an_hour_that_is_not_over_is_left(tmp_path: Path) -> None:
    write_many(tmp_path)
    assert compact(tmp_path, now=AT + timedelta(minutes=119)) == Compacted()
    assert compact(tmp_path, now=AT + timedelta(minutes=120)).hours == 1


def test_files_that_come_later_are_compacted_later(tmp_path: Path) -> None:
    write_many(tmp_path)
    compact(tmp_path)
    write_log(tmp_path, MODEL, some("late", 3), name="late")
    before = rows_of(tmp_path)
    assert compact(tmp_path).files_after == 1
    assert rows_of(tmp_path) == before


def test_sizes_are_bounded_and_large_files_stay(tmp_path: Path) -> None:
    before = write_many(tmp_path, files=8)
    sizes = [path.stat().st_size for path in hour_folder(tmp_path, MODEL, AT).glob("*.parquet")]
    kept = write_log(tmp_path, MODEL, some("large", 20_000), name="large")[0]
    inode, before = kept.stat().st_ino, rows_of(tmp_path)
    assert kept.stat().st_size > sum(sizes)
    compact(tmp_path, max_bytes=kept.stat().st_size)
    assert rows_of(tmp_path) == before
    assert len(names(tmp_path)) == 2
    assert kept.stat().st_ino == inode


def test_other_schemas_stay_themselves_and_what_is_damaged_is_set_aside(tmp_path: Path) -> None:
    before = write_many(tmp_path)
    folder = hour_folder(tmp_path, MODEL, AT)
    for name in ("old-1", "old-2"):
        older = some(name, 4).select(["entity", "time", "request_id", "status"])
        older = older.set_column(3, "status", older["status"].cast(pa.int64())).append_column(
            "one_more", [[7] * 4]
        )
        pq.write_table(older, folder / f"{name}.parquet")
        before += Counter(older["request_id"].to_pylist())
    (folder / "no.parquet").write_bytes(b"PAR1 and nothing else")
    pq.write_table(some("torn", 900), folder / "torn.parquet", compression="none", use_dictionary=False)
    raw = bytearray((folder / "torn.parquet").read_bytes())
    raw[4 : len(raw) // 2] = bytes(len(raw) // 2 - 4)
    (folder / "torn.parquet").write_bytes(raw)

    done = compact(tmp_path)
    assert (done.files_after, done.aside) == (2, 2)
    assert rows_of(tmp_path) == before
    schemas = [pq.read_schema(folder / name) for name in names(tmp_path)]
    assert sorted(len(schema) for schema in schemas) == [5, len(REQUEST_LOG)]
    assert "one_more" in min(schemas, key=len).names
    assert sorted(path.name for path in tmp_path.glob("requests-aside/**/*.parquet")) == [
        "no.parquet",
        "torn.parquet",
    ]


def test_a_stream_that_is_converted_again_adds_nothing(tmp_path: Path) -> None:
    # Killed between its last file and the end of the stream, a worker leaves a stream whose rows are stored.
    stream = LogStream(tmp_path / "streams", MODEL)
    stream.write(some("stream", 9).to_batches()[0])
    stream.close()
    raw = stream.path.read_bytes()
    for _ in range(2):
        stream.path.write_bytes(raw)
        claimed = claim(stream.path)
        assert claimed is not None
        with claimed:
            ParquetFolder(str(tmp_path)).take(claimed)
        write_many(tmp_path)
        compact(tmp_path)
        assert not stream.path.exists()
    assert set(rows_of(tmp_path).values()) == {1}
    # A writer that does not ask: its file is found to be a repetition. (`write_many` is such a writer, too.)
    assert len(list(tmp_path.glob("requests-aside/**/w*.parquet"))) == 6


def test_an_import_after_compaction_adds_nothing(tmp_path: Path) -> None:
    source = tmp_path / "log.csv"
    source.write_text("time,entity\n" + "".join(f"2026-11-27T05:00:0{i}Z,{i}\n" for i in range(7)))
    call = ["import", str(source), "--model", MODEL, "--data-url", str(tmp_path)]
    assert main(call) == 0
    write_many(tmp_path)
    before = rows_of(tmp_path)
    compact(tmp_path)
    assert main(call) == 0
    assert rows_of(tmp_path) == before


def test_readers_never_see_a_row_twice_or_not(tmp_path: Path) -> None:
    hours = [AT + timedelta(hours=number) for number in range(12)]
    for at in hours:
        write_many(tmp_path, files=4, at=at)
    before = rows_of(tmp_path)
    ended, seen, again = threading.Event(), [], 0

    def read() -> None:
        nonlocal again
        while not ended.is_set() or not seen:
            try:
                seen.append(rows_of(tmp_path))
            except FileNotFoundError:  # listed before, opened after
                again += 1

    reader = threading.Thread(target=read)
    reader.start()
    done = compact(tmp_path, now=NOW + timedelta(days=1))
    ended.set()
    reader.join()
    assert done.hours == 12
    assert all(rows == before for rows in seen)


def die_at(step: int, root: Path, max_bytes: int) -> NoReturn:
    """In a process of its own: compacts, and is gone at its n-th operation on files, with nothing tidied up."""
    left = step

    def count(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        is_write = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if is_write or event in {"os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "ctypes.dlsym"}:
            left -= 1
            if left == 0:
                os._exit(9)

    sys.addaudithook(count)
    compact(root, max_bytes=max_bytes)
    os._exit(0)


@pytest.mark.fault
def test_killed_at_any_step_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    step, deaths = 1, 0
    while True:
        root = tmp_path / str(step)
        write_many(root, files=3)
        write_log(root, MODEL, some("large", 3_000), name="large")
        before, size = rows_of(root), hour_folder(root, MODEL, AT).joinpath("large.parquet").stat().st_size
        assert size > max(path.stat().st_size for path in hour_folder(root, MODEL, AT).glob("w*"))
        child = os.fork()
        if child == 0:
            try:
                die_at(step, root, size)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert rows_of(root) == before, f"killed at step {step}"
        (hour_folder(root, MODEL, AT) / ".half.parquet.part").write_bytes(b"PAR1")
        compact(root, max_bytes=size)
        assert rows_of(root) == before, f"killed at step {step}, and run again"
        assert [name[:7] for name in names(root)] == ["compact", "large.p"]
        assert left_beside(root) == LOCKS
        if os.waitstatus_to_exitcode(status) == 0:
            break
        assert os.waitstatus_to_exitcode(status) == 9
        step, deaths = step + 1, deaths + 1
    assert deaths > 12


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_many(tmp_path)
    assert main(["compact", "--here", "--data-url", str(tmp_path)]) == 0
    assert "007: 1 hours compacted, 6 files became 1, 45 rows merged, 0 files set aside" in capsys.readouterr().out
    assert main(["compact", "--data-url", "memory://log"]) == 2
    assert "is no local folder" in capsys.readouterr().err


def test_retention_says_first_and_deletes_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    today = datetime.now(AT.tzinfo).replace(hour=3)
    for days in (0, 29, 30, 31, 400):
        write_many(tmp_path, files=1, at=today - timedelta(days=days))
    aside = tmp_path / "requests-aside" / "requests" / f"model={MODEL}" / "date=2020-01-01" / "hour=00"
    aside.mkdir(parents=True)
    (aside / "x.parquet").write_bytes(b"no")
    others = [tmp_path / name / f"model={MODEL}" / f"date={today:%Y-%m-%d}" for name in ("parity", "drift")]
    for other in others:
        for folder in (other, other.with_name("date=2020-01-01")):
            folder.mkdir(parents=True)
    call = ["retention", "--days", "30", "--data-url", str(tmp_path)]
    before = rows_of(tmp_path)
    assert main(call) == 0
    assert "5 days" in capsys.readouterr().out
    assert rows_of(tmp_path) == before
    assert aside.exists()
    for deleted in ("5 days", "0 days"):
        assert main([*call, "--delete"]) == 0
        assert f"{deleted}, " in capsys.readouterr().out
    kept = sorted(path.name for path in (tmp_path / "requests" / f"model={MODEL}").glob("date=*"))
    assert kept == sorted(f"date={today - timedelta(days=days):%Y-%m-%d}" for days in (0, 29, 30))
    assert not aside.exists()
    assert [list(other.parent.iterdir()) for other in others] == [[other] for other in others]
    assert left_beside(tmp_path) == LOCKS
    assert main(["retention", "--days", "0", "--data-url", str(tmp_path)]) == 2
