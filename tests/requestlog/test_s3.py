"""The request log on S3: whole files only, found again by the site and by `explain`."""

import io
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.writer import LogWriter
from online.monitor.explain.command import main as explain
from online.monitor.requestlog.files import LogFolder
from online.monitor.settings import MonitorSettings
from schemas.arrow import REQUEST_LOG
from tests.requestlog.endless import row

pytestmark = pytest.mark.long
ROWS = 500


def test_rows_become_whole_files_that_readers_find(root: str, tmp_path: Path) -> None:
    buffer = LogBuffer(["m"], 10_000)
    with LogWriter(
        buffer, tmp_path / "log", root, 3600, 1 << 30, 1 << 30, lambda columns, refused: None
    ) as writer:
        for number in range(ROWS):
            buffer.add("m", row(number))
    assert (writer.counts.written, writer.counts.files, writer.counts.failed_files) == (ROWS, 1, 0)
    assert list((tmp_path / "log").iterdir()) == []
    fs, path = fsspec.core.url_to_fs(root)
    names = fs.find(path)
    assert [name.endswith(".parquet") and "/." not in name for name in names] == [True]
    now = datetime.now(UTC)
    start_s, end_s = (int((now + timedelta(hours=hours)).timestamp()) for hours in (-1, 1))
    (file,) = LogFolder(root, "m").within(start_s, end_s).files
    with fs.open(file.path) as opened:
        table = pq.ParquetFile(opened).read()
    assert table.schema.equals(REQUEST_LOG)
    assert table["request_id"].to_pylist() == [str(number) for number in range(ROWS)]
    out = io.StringIO()
    with redirect_stdout(out):
        assert explain([str(ROWS - 1)], MonitorSettings(data_url=root, streams_dir=None)) == 0
    assert f'Request "{ROWS - 1}"' in out.getvalue()


def test_a_store_that_was_away_gets_all_later(root: str, tmp_path: Path) -> None:
    """A bucket that is not there: rows wait in the stream, and the next writer stores them."""
    for url, files in ((root.replace("s3://log", "s3://no-such-bucket"), 0), (root, 1)):
        buffer = LogBuffer(["m"], 100)
        buffer.add("m", row(files))
        with LogWriter(
            buffer, tmp_path / "log", url, 3600, 1 << 30, 1 << 30, lambda columns, refused: None
        ) as writer:
            pass
        assert bool(writer.counts.failed_files) is not bool(files)
    fs, path = fsspec.core.url_to_fs(root)
    found = [pq.ParquetFile(fs.open(name)).read()["request_id"].to_pylist() for name in fs.find(path)]
    assert sorted(found) == [["0"], ["1"]]
