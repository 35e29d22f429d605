"""The kept log while files are rotated and compacted: every row once, at any moment, and seldom read again."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.requestlog.compact import compact_model
from online.monitor.overview.figures import Figures, read_figures
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.keeper import keep
from online.monitor.requestlog.kept import Coverage, KeptLog
from online.monitor.requestlog.kinds import MAX_KINDS
from online.monitor.requestlog.streams import StreamFolder
from online.monitor.windows import RANGES, window_at
from schemas.arrow import REQUEST_LOG
from schemas.names import COMPACTED_FILE, stream_name
from tests.support.api_process import wait_for
from tests.support.request_log import hour_folder, log_table, traffic, utc, write_log

NOON = utc("2026-11-29 12:00")
NOW = utc("2026-11-29 12:58:30")
NINE = NOON - timedelta(hours=3)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeptLog]:
    kept = KeptLog(LogFolder(str(tmp_path), "delay"), StreamFolder(tmp_path / "streams", "delay"), 1, 256)
    yield kept
    kept.close()


def look(log: KeptLog, budget_s: float | None = None) -> tuple[Coverage, Figures]:
    window = window_at(RANGES[1], NOW.timestamp())
    coverage = log.refresh(window.start_s, window.end_s, window.now_s, budget_s)
    return coverage, read_figures(log.counts, window)


def compact(root: Path) -> int:
    """The files of hours that were compacted, before."""
    found = compact_model(root, "delay", NOW, timedelta(hours=1), 64_000_000)
    return found.files_before


def write_files(root: Path, files: int = 4, rows: int = 300) -> None:
    for number in range(files):
        table = traffic(NINE, NINE + timedelta(minutes=50), rows, number)
        write_log(root, "delay", table, stream_name("delay", str(number)))


def write_stream(root: Path, unique: str, table: pa.Table) -> None:
    (root / "streams").mkdir(exist_ok=True)
    path = root / "streams" / f"{stream_name('delay', unique)}.arrows"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, REQUEST_LOG) as stream:
        stream.write_table(table)


def tear(path: Path) -> None:
    """Every page, behind a good footer."""
    content = bytearray(path.read_bytes())
    end = len(content) * 8 // 10
    content[4:end] = b"\xff" * (end - 4)
    path.write_bytes(content)


def test_a_compacted_hour_is_the_same_and_is_not_read_again(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path)
    _, before = look(log)
    assert compact(tmp_path) == 4
    [compacted] = hour_folder(tmp_path, "delay", NINE).glob("*.parquet")
    tear(compacted)  # whoever reads it again sets it aside
    coverage, after = look(log)
    assert (coverage.files, coverage.set_aside) == (1, ())
    assert after == before
    assert before.requests() == 1200


def test_a_site_that_starts_after_the_compaction_counts_the_same(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path)
    _, before = look(log)
    compact(tmp_path)
    late = KeptLog(LogFolder(str(tmp_path), "delay"), None, 1, 256)
    assert look(late)[1] == before
    late.close()


def test_a_late_file_beside_a_compacted_one_is_counted_and_compacted_again(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path)
    look(log)
    compact(tmp_path)
    write_log(tmp_path, "delay", traffic(NINE, NINE + timedelta(minutes=50), 70, 9), stream_name("delay", "9"))
    coverage, figures = look(log)
    assert (coverage.files, figures.requests()) == (2, 1270)
    assert compact(tmp_path) == 2
    assert (look(log)[1].requests(), look(log)[0].files) == (1270, 1)


def test_rows_that_came_with_the_compaction_are_counted(log: KeptLog, tmp_path: Path) -> None:
    """The site saw three files; a fourth came and went into the compacted one before it looked again."""
    write_files(tmp_path, files=3)
    assert look(log)[1].requests() == 900
    write_files(tmp_path, files=4)
    compact(tmp_path)
    assert look(log)[1].requests() == 1200


def test_what_a_compacted_file_has_already_is_never_counted_again(log: KeptLog, tmp_path: Path) -> None:
    """A stream left by a worker that died, and a file that a writer brings again which knew nothing of it."""
    write_files(tmp_path)
    compact(tmp_path)
    again = traffic(NINE, NINE + timedelta(minutes=50), 300, 2)
    later = log_table([{"time": NOON}] * 5)
    write_stream(tmp_path, "2", pa.concat_tables([again, later]))
    assert look(log)[1].requests() == 1205
    write_log(tmp_path, "delay", again, stream_name("delay", "2"))
    coverage, figures = look(log)
    assert (coverage.files, coverage.streams, figures.requests()) == (1, 1, 1205)


def test_the_mark_is_read_in_an_object_store_too(tmp_path: Path) -> None:
    [path] = write_log(tmp_path, "delay", log_table([{"time": NOON}] * 2))
    memory, folder = fsspec.filesystem("memory"), "/marked/requests/model=delay/date=2026-11-29/hour=12"
    for name in ("old", "compact"):
        memory.pipe(f"{folder}/{name}.parquet", path.read_bytes())
    memory.pipe(f"{folder}/{COMPACTED_FILE}", json.dumps({"id": "x", "files": ["old.parquet"]}).encode())
    kept = KeptLog(LogFolder("memory://marked", "delay"), None, 1, 256)
    try:
        coverage, figures = look(kept)
        assert (coverage.files, figures.requests()) == (1, 2)
    finally:
        kept.close()
        memory.rm("/marked", recursive=True)


def test_a_mark_that_cannot_be_read_hides_nothing(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path, files=1)
    (hour_folder(tmp_path, "delay", NINE) / COMPACTED_FILE).write_bytes(b"{")
    assert look(log)[1].requests() == 300


def test_a_replaced_hour_never_shows_half(log: KeptLog, tmp_path: Path) -> None:
    """Files of an hour that is over are one part: when one goes, the others are there in the same moment."""
    write_files(tmp_path)
    assert look(log)[1].requests() == 1200
    folder = hour_folder(tmp_path, "delay", NINE)
    (folder / f"{stream_name('delay', '0')}.parquet").unlink()
    coverage, figures = look(log, budget_s=0.0)
    assert (coverage.waiting, figures.requests()) == (1, 1200)
    coverage, figures = look(log)
    assert (coverage.waiting, coverage.files, figures.requests()) == (0, 3, 900)


def test_what_is_not_read_in_time_is_said_and_read_later(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path)
    coverage, figures = look(log, budget_s=0.0)
    assert (coverage.waiting, coverage.files, figures.requests()) == (4, 0, 0)
    coverage, figures = look(log)
    assert (coverage.waiting, coverage.files, figures.requests()) == (0, 4, 1200)


def test_a_page_does_not_wait_for_another_ones_reading(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path)
    look(log)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with log.lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(10)
        window = window_at(RANGES[1], NOW.timestamp())
        with log.reading(window.start_s, window.end_s, window.now_s) as (counts, coverage, _):
            assert coverage.waiting > 0
            assert read_figures(counts, window).requests() == 1200
    finally:
        done.set()
        thread.join()


def test_what_was_handed_out_does_not_change(log: KeptLog, tmp_path: Path) -> None:
    write_files(tmp_path, files=1)
    window = window_at(RANGES[1], NOW.timestamp())
    with log.reading(window.start_s, window.end_s, window.now_s) as (counts, _, _):
        write_log(tmp_path, "delay", log_table([{"time": NOON, "version": "8", "code": "new"}] * 7), "b")
        assert look(log)[1].requests() == 307
        assert read_figures(counts, window).requests() == 300


def test_hours_get_coarser_as_they_age_and_count_the_same(log: KeptLog, tmp_path: Path) -> None:
    write_log(tmp_path, "delay", traffic(NOON, NOON + timedelta(minutes=58), 2000), "a")
    write_log(tmp_path, "delay", traffic(NOON, NOON + timedelta(minutes=58), 2000, 1), "b")

    def slots() -> tuple[int, int]:
        """The greatest common width of slots in minutes, and how many parts there are."""
        minutes = {minute for part in log.counts.parts for minute in part.latencies.minute.tolist()}
        return next(width for width in (60, 15, 1) if not any(m % width for m in minutes)), len(log.counts.parts)

    window = window_at(RANGES[2], NOW.timestamp())
    expected = None
    for later, wanted in ((0, (1, 2)), (3, (15, 1)), (30, (60, 1))):
        log.refresh(window.start_s, window.end_s, int((NOW + timedelta(hours=later)).timestamp()))
        assert slots() == wanted
        figures = read_figures(log.counts, window)
        assert figures == (expected or figures)
        expected = figures


def test_the_keeper_reads_without_being_asked(log: KeptLog, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    write_log(tmp_path, "delay", log_table([{"time": now - timedelta(days=day)} for day in (0, 2, 20)]))
    stop = threading.Event()
    thread = threading.Thread(target=keep, args=([log], stop))
    thread.start()
    try:
        wait_for(lambda: sum(part.rows for part in log.counts.parts) == 3, 20, "all rows in the counts")
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()


def test_kinds_do_not_grow_without_end(log: KeptLog, tmp_path: Path) -> None:
    rows = [
        {"time": NOON, "source": None, "status": 404, "code": f"c{number}"} for number in range(MAX_KINDS + 500)
    ]
    write_log(tmp_path, "delay", log_table(rows))
    _, figures = look(log)
    assert figures.requests("error") == MAX_KINDS + 500
    assert len(log.counts.kinds) <= MAX_KINDS + 1
    assert figures.errors[0] == ("other", None, 500)


def test_the_names_of_a_mark_are_those_the_batch_side_writes(tmp_path: Path) -> None:
    write_files(tmp_path)
    compact(tmp_path)
    folder = hour_folder(tmp_path, "delay", NINE)
    listing = LogFolder(str(tmp_path), "delay").within(int(NINE.timestamp()), int(NOON.timestamp()))
    assert list(listing.compacted.values()) == [
        frozenset(json.loads((folder / COMPACTED_FILE).read_bytes())["files"])
    ]
    assert [file.name for file in listing.files] == [path.name for path in folder.glob("*.parquet")]
    assert sum(pq.read_metadata(file.path).num_rows for file in listing.files) == 1200
