"""A log writer killed with SIGKILL at any moment: at most its last flush is lost, and every file can be read."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
import pytest

from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.writer import LogWriter
from tests.support.api_process import ROOT
from tests.support.request_log_reading import stream_rows

pytestmark = pytest.mark.fault
# A flush is a second after the last one ended, and takes as long as a busy machine lets it.
FLUSH_S = 2.0
KILLS = 4


class Endless:
    """A writer in a process of its own, and when each of its numbers was heard."""

    def __init__(self, folder: Path, url: str, environment: Mapping[str, str]) -> None:
        self.heard: list[tuple[float, int]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.requestlog.endless", str(folder), url],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT), "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def kill(self, after_s: float) -> int:
        """SIGKILL so long after its first row. The number of the newest row that has to have been flushed."""
        while not self.heard:
            time.sleep(0.01)
        time.sleep(after_s)
        self.process.kill()
        killed_s = time.monotonic()
        self.process.wait()
        self._thread.join()
        return max((number for heard_s, number in self.heard if heard_s < killed_s - FLUSH_S), default=-1)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.heard.append((time.monotonic(), int(line)))
        self.process.stdout.close()


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_killed_writer(kind: str, s3: Mapping[str, str], root: str, tmp_path: Path) -> None:
    for place in range(KILLS):
        folder = tmp_path / f"log-{place}"
        url = f"{root}/{place}" if kind == "s3" else str(tmp_path / f"data-{place}")
        due = Endless(folder, url, s3).kill(2.5 + random.random())
        flushed = [int(r["request_id"]) for path in folder.glob("*.arrows") for r in stream_rows(path)]
        before = stored(url)
        assert set(flushed) | set(before) >= set(range(due + 1)), "all but the last flush can be read at once"
        with LogWriter(
            LogBuffer(["m"], 1), folder, url, 3600, 1 << 30, 1 << 30, lambda columns, refused: None
        ) as next_one:
            deadline_s = time.monotonic() + 15
            while list(folder.glob("*.arrows")):
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        assert next_one.counts.failed_files == 0
        found = stored(url)
        assert sorted(found) == list(range(len(found))), "each row once, none left out between"
        assert len(found) > due


def stored(url: str) -> list[int]:
    """Of every file that a reader would take; each has to be readable."""
    fs, path = fsspec.core.url_to_fs(url)
    fs.invalidate_cache()
    found = []
    for name in fs.find(path):
        if name.rpartition("/")[2].startswith("."):
            continue  # was being written, which readers know by its name
        with fs.open(name) as file:
            found += [int(one) for one in pq.ParquetFile(file).read()["request_id"].to_pylist()]
    return found
