"""The threads of a log: one folds the buffer once a second, another turns finished streams into Parquet.

The second waits on the data root, which may be far away or gone; the first never does. pyarrow is loaded
when they start, not when this module is imported.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.columns import Columns
from online.pauses import Pauses
from schemas.names import STREAM_SUFFIX, parity_hour_path, requests_hour_path

if TYPE_CHECKING:
    from online.api.requestlog.parquet import HourPath
    from online.api.requestlog.stream import LogStream

log = logging.getLogger(__name__)

_FOLD_S = 1.0
_TAKE_OVER_S = 60.0


class Kept(NamedTuple):
    """Which log is written: the name of its schema in `schemas.arrow`, and where an hour of it lies."""

    schema: str
    hour_path: "HourPath"


REQUESTS = Kept("REQUEST_LOG", requests_hour_path)
PARITY = Kept("PARITY", parity_hour_path)


class LogCounts:
    """Rows, values and files by what became of them; written by the log's threads."""

    def __init__(self) -> None:
        self.written = self.dropped = self.bad_values = self.files = self.failed_files = 0


class LogWriter:
    """Use as `with`; the end folds what is left, and turns this worker's streams into Parquet.

    Args:
        fold: gets each second's columns with their models, and the counts of refused requests: the metrics.
        kept: the log whose rows the buffer holds; each has a `folder` of its own.
    """

    def __init__(
        self,
        buffer: LogBuffer,
        folder: Path,
        data_url: str,
        rotate_s: float,
        rotate_bytes: int,
        max_bytes: int,
        fold: Callable[[Sequence[tuple[str, Columns]], Mapping[str, int]], None],
        kept: Kept = REQUESTS,
    ) -> None:
        self._kept = kept
        self._buffer, self._folder, self._data_url, self._fold = buffer, folder, data_url, fold
        self._rotate_s, self._rotate_bytes, self._max_bytes = rotate_s, rotate_bytes, max_bytes
        self._streams: dict[str, LogStream] = {}
        self._finished: deque[Path] = deque()
        self._ending = threading.Event()
        self._folded_all = threading.Event()
        self._finished_one = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, name="log writer", daemon=True),
            threading.Thread(target=self._convert, name="log to Parquet", daemon=True),
        ]
        self.counts = LogCounts()

    def __enter__(self) -> Self:
        from online.api.requestlog import arrays

        arrays.warm_up()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ending.set()
        self._finished_one.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        while not self._ending.wait(_FOLD_S):
            self._guarded(self._fold_once)
        self._guarded(self._fold_once)
        for model in list(self._streams):
            self._guarded(partial(self._finish, model))
        self._folded_all.set()
        self._finished_one.set()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            # The log may fail (a full disk), the thread may not: the next second is another try.
            log.exception("the request log failed")

    def _fold_once(self) -> None:
        taken = self._buffer.take()
        self._fold(taken, self._buffer.take_refused())
        for model, columns in taken:
            try:
                self._append(model, columns)
            except OSError as error:
                self.counts.dropped += len(columns[0])
                log.error("rows of the request log are lost", extra={"error": str(error), "rows": len(columns[0])})
                self._finish(model)
        for model, stream in list(self._streams.items()):
            if stream.age_s >= self._rotate_s or stream.size >= self._rotate_bytes:
                self._finish(model)

    def _append(self, model: str, columns: Columns) -> None:
        from online.api.requestlog.arrays import to_batch
        from online.api.requestlog.stream import LogStream
        from schemas import arrow

        if self._waiting_bytes() > self._max_bytes:
            self.counts.dropped += len(columns[0])
            return
        schema = getattr(arrow, self._kept.schema)
        batch, bad = to_batch(columns, schema)
        if model not in self._streams:
            self._streams[model] = LogStream(self._folder, model, schema)
        self._streams[model].write(batch)
        self.counts.written += batch.num_rows
        self.counts.bad_values += bad

    def _waiting_bytes(self) -> int:
        """Of streams that wait for the data root."""
        found = 0
        for path in list(self._finished):
            try:
                found += path.stat().st_size
            except OSError:
                continue
        return found

    def _finish(self, model: str) -> None:
        stream = self._streams.pop(model, None)
        if stream is None:
            return
        try:
            stream.close()
        finally:
            self._finished.append(stream.path)
            self._finished_one.set()

    def _convert(self) -> None:
        pauses, next_look_s = Pauses(1.0, 60.0), 0.0
        while True:
            if time.monotonic() >= next_look_s:
                self._find_left_behind()
                next_look_s = time.monotonic() + _TAKE_OVER_S
            while self._finished:
                if self._convert_one(self._finished[0]):
                    self._finished.popleft()
                    pauses.reset()
                elif self._ending.wait(pauses.next_s()):
                    return  # the next start takes it over
            if self._folded_all.is_set():
                return
            self._finished_one.wait(max(0.0, next_look_s - time.monotonic()))
            self._finished_one.clear()

    def _find_left_behind(self) -> None:
        """Streams of workers that are dead; a live one's is locked, which `claim` finds out."""
        known = set(self._finished)
        self._finished.extend(path for path in sorted(self._folder.glob("*" + STREAM_SUFFIX)) if path not in known)

    def _convert_one(self, path: Path) -> bool:
        from online.api.requestlog.parquet import ParquetFolder
        from online.api.requestlog.stream import claim
        from schemas import arrow

        claimed = claim(path)
        if claimed is None:
            return True
        with claimed:
            try:
                folder = ParquetFolder(self._data_url, self._kept.hour_path, getattr(arrow, self._kept.schema))
                rows = folder.take(claimed)
            except Exception as error:  # noqa: BLE001 - any store's error: the stream stays, and is tried again
                self.counts.failed_files += 1
                log.error("a request log cannot be stored", extra={"stream": path.name, "error": str(error)})
                return False
        self.counts.files += 1
        log.info("request log stored", extra={"stream": path.name, "rows": rows})
        return True
