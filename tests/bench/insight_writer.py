"""`python -m tests.bench.insight_writer FOLDER paced|fast ROWS`: what one worker's log writer holds, in a process.

`paced`: rows come at the rate that it has to hold; then its memory is told. `fast`: as fast as it takes them; then
how many that was. Metrics are folded and files stored as in service. The last line of standard output is JSON.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import psutil

from tests.support.plain_hits import AnsweredHit, Lane, Version, kept

_LANE = Lane(Version("7"))
RATE_PER_S, STEP_S = 5_000, 0.01
# As in service; and how many the fast kind lets wait, so that the writer is never without.
_MAX_ROWS, _WAITING_ROWS = 200_000, 150_000
_ROTATE_BYTES = 64 << 20


class Memory:
    """What this process held at `start`, and the most since, sampled."""

    def __init__(self) -> None:
        self._process, self._ending = psutil.Process(), threading.Event()
        self.loaded = self.peak = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self.loaded = self.peak = self._process.memory_info().rss
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ending.wait(0.02):
            self.peak = max(self.peak, self._process.memory_info().rss)


def main(folder: Path, kind: str, rows: int) -> dict[str, object]:
    # As `python -m online.api` has it: metrics go to files that all workers share.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(dir=folder)
    from online.api.metrics.series import Metrics
    from online.api.requestlog.buffer import RequestBuffer
    from online.api.requestlog.samples import Samples
    from online.api.requestlog.writer import LogWriter

    samples = Samples(0.01, (), lambda view, entities: [None] * len(entities))
    buffer, metrics, memory = RequestBuffer(["m"], _MAX_ROWS, samples), Metrics(dict), Memory()
    before = psutil.Process().memory_info().rss
    with LogWriter(
        buffer, folder / "log", str(folder / "data"), 3600.0, _ROTATE_BYTES, 1 << 30, metrics.fold
    ) as writer:
        memory.start()
        began_s = time.monotonic()
        if kind == "paced":
            _paced(buffer, rows)
        else:
            _fast(buffer, rows, lambda: writer.counts.written)
    took_s = time.monotonic() - began_s
    memory.stop()
    return {
        "rows_per_s": rows / took_s,
        "dropped": buffer.dropped + writer.counts.dropped,
        "written": writer.counts.written,
        "offered": rows,
        "files": writer.counts.files,
        "loaded_mb": (memory.loaded - before) / 1e6,
        "rss_mb": (memory.peak - memory.loaded) / 1e6,
    }


def _paced(buffer: Any, rows: int) -> None:
    began_s, added = time.monotonic(), 0
    while added < rows:
        for _ in range(min(rows, int((time.monotonic() - began_s) * RATE_PER_S)) - added):
            add(buffer, added)
            added += 1
        time.sleep(STEP_S)


def _fast(buffer: Any, rows: int, written: Callable[[], int]) -> None:
    for number in range(rows):
        if number % 1000 == 0:
            while number - written() > _WAITING_ROWS:
                time.sleep(STEP_S)
        add(buffer, number)


def add(buffer: Any, number: int) -> None:
    """Nine plain hits to a live answer; one answer in a hundred with inputs and outputs."""
    now_us, request_id, entity = (
        time.time_ns() // 1000,
        f"4bf92f3577b34da6{number:08x}",
        f"UA{number % 50_000}-EWR",
    )
    is_live, is_sampled = number % 10 == 0, number % 100 == 0
    total_us, generation = 900 + number % 500, "20261129T0200Z-1"
    if not is_live:
        told = kept(entity.encode(), generation, "on time", 0.93, now_us // 1000 - 3_600_000)
        buffer.hits.add([AnsweredHit(_LANE, told, request_id.encode(), now_us, total_us)])
        return
    inputs = '{"distance":1020.0,"delay":3.5,"airline":"UA"}' if is_sampled else None
    row = (
        *(now_us, request_id, entity, "7", generation, None, None, "live", "not_selected", 200, None, "on time"),
        *(0.93, 3_600_000, total_us, 40, 600, 400, 3000, 60, 5000, 30, 8, False, inputs),
        [0.07] if is_sampled else None,
    )
    buffer.add("m", row)


if __name__ == "__main__":
    print(orjson.dumps(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))).decode())  # noqa: T201 - this command's answer
