"""Unrotated streams: read up to the last flush, every row once, also across a rotation and a torn end."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from online.monitor.overview.figures import Figures, read_figures
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kept import Coverage, KeptLog
from online.monitor.requestlog.streams import StreamFolder
from online.monitor.windows import RANGES, window_at
from schemas.arrow import REQUEST_LOG
from schemas.names import stream_name
from tests.support.request_log import log_table, utc, write_log

NOON = utc("2026-11-29 12:00")
NOW = utc("2026-11-29 12:58:30")


class Writer:
    """Appends flushes to a stream as the API does: no footer until it is rotated."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self._file = pa.OSFile(str(path), "wb")
        self._stream = pa.ipc.new_stream(self._file, REQUEST_LOG)

    def flush(self, at: datetime, rows: int, **columns: object) -> pa.Table:
        table = log_table([{"time": at, **columns}] * rows)
        self._stream.write_table(table)
        return table


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeptLog]:
    kept = KeptLog(LogFolder(str(tmp_path), "delay"), StreamFolder(tmp_path / "streams", "delay"), 1, 256)
    yield kept
    kept.close()


@pytest.fixture
def name() -> str:
    return stream_name("delay", "1")


@pytest.fixture
def writer(tmp_path: Path, name: str) -> Writer:
    return Writer(tmp_path / "streams" / f"{name}.arrows")


def look(log: KeptLog) -> tuple[Coverage, Figures]:
    window = window_at(RANGES[1], NOW.timestamp())
    coverage = log.refresh(window.start_s, window.end_s, window.now_s)
    return coverage, read_figures(log.counts, window)


def entities(log: KeptLog) -> list[object]:
    window = window_at(RANGES[1], NOW.timestamp())
    return [row[2] for row in log.latest(window.start_s, window.end_s, 5)]


def test_each_flush_is_counted_once(log: KeptLog, writer: Writer) -> None:
    assert look(log)[1].requests() == 0
    writer.flush(NOON, 3)
    assert look(log)[1].requests() == 3
    assert look(log)[1].requests() == 3
    writer.flush(NOON + timedelta(minutes=1), 4, entity="newest")
    coverage, figures = look(log)
    assert (coverage.streams, figures.requests(), figures.latencies["hit", "total"].requests) == (1, 7, 7)
    assert entities(log) == ["newest"] * 4 + ["e"]


def test_a_torn_end_is_read_when_it_is_whole(log: KeptLog, writer: Writer) -> None:
    writer.flush(NOON, 3)
    whole_at = writer.path.stat().st_size
    writer.flush(NOON, 5)
    content = writer.path.read_bytes()
    for cut in (whole_at + 1, whole_at + 200, len(content) - 1):
        writer.path.write_bytes(content[:cut])
        assert look(log)[1].requests() == 3
    writer.path.write_bytes(content)
    assert look(log)[1].requests() == 8


@pytest.mark.parametrize("content", [b"", b"\xff\xff\xff\xff", b"no stream at all", b"\x00" * 64])
def test_what_is_no_stream_breaks_nothing(log: KeptLog, tmp_path: Path, writer: Writer, content: bytes) -> None:
    writer.flush(NOON, 2)
    (tmp_path / "streams" / f"{stream_name('delay', '9')}.arrows").write_bytes(content)
    (tmp_path / "streams" / "notes.txt").write_bytes(content)
    assert look(log)[1].requests() == 2


def test_streams_of_other_models_are_theirs(log: KeptLog, tmp_path: Path) -> None:
    for model in ("delay2", "delay-2", "delay.2", "d"):
        Writer(tmp_path / "streams" / f"{stream_name(model, '1')}.arrows").flush(NOON, 2)
    assert look(log)[1].requests() == 0


def test_a_rotated_hour_is_counted_once_and_the_rest_stays(
    log: KeptLog, tmp_path: Path, writer: Writer, name: str
) -> None:
    """The stream holds two hours; one is Parquet already, then both, then the stream is gone."""
    before = writer.flush(NOON - timedelta(minutes=1), 3, entity="before")
    after = writer.flush(NOON + timedelta(minutes=1), 4, entity="after")
    assert look(log)[1].requests() == 7
    write_log(tmp_path, "delay", before, name)
    assert look(log)[1].requests() == 7
    assert entities(log) == ["after"] * 4 + ["before"]
    write_log(tmp_path, "delay", after, name)
    coverage, figures = look(log)
    assert (coverage.files, coverage.streams, figures.requests()) == (2, 1, 7)
    writer.path.unlink()
    coverage, figures = look(log)
    assert (coverage.files, coverage.streams, figures.requests()) == (2, 0, 7)
    assert entities(log) == ["after"] * 4 + ["before"]


def test_a_site_that_starts_late_counts_the_same(tmp_path: Path, writer: Writer, name: str) -> None:
    write_log(tmp_path, "delay", writer.flush(NOON, 3), name)
    writer.flush(NOON - timedelta(hours=1), 2)
    late = KeptLog(LogFolder(str(tmp_path), "delay"), StreamFolder(tmp_path / "streams", "delay"), 1, 256)
    assert look(late)[1].requests() == 5
    late.close()
