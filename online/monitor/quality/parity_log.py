"""The log of hits that the API computed again: counts by minute, and the newest that differed.

Each Parquet file is read once and folded into counts; unrotated streams are read as they are, since they hold a
few rows a second at most. Rows of a stream's hour go when the hour's Parquet file, which has its name, is there.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from online.monitor.windows import Window, utc
from schemas.arrow import PARITY
from schemas.names import STREAM_SUFFIX, parity_day_path, stream_model
from schemas.parity import Kind

logger = logging.getLogger(__name__)

SHOWN_DIFFERENCES = 50
_DAY = timedelta(days=1)
_KEPT_S = 30 * 86_400
# What a page waits for newer rows, and for the first ones after the start.
PATIENCE_S = 0.2
FIRST_PATIENCE_S = 2.0
_COUNTED = ("kind", "skipped")
# Days before yesterday get no new files.
_SETTLED_LISTING_S = 60.0
_ERRORS = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Compared:
    """Hits of a window.

    Attributes:
        counts: (step of the window, kind or None, why skipped or None, hits).
        differences: rows of `schemas.arrow.PARITY` that are not equal, newest first.
        unread: files that cannot be read.
    """

    counts: list[tuple[int, str | None, str | None, int]] = field(default_factory=list)
    differences: list[dict[str, Any]] = field(default_factory=list)
    newest: datetime | None = None
    files: int = 0
    unread: int = 0
    problem: str | None = None


# Parts are told apart as objects: what was joined of them is kept by that.
@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Of one file or more; `unread` of them cannot be read."""

    counts: pa.Table
    differences: list[dict[str, Any]]
    newest: datetime | None
    files: int = 1
    unread: int = 0


@dataclass(slots=True)
class _Day:
    """A day's files as listed at `listed_s`, what is kept of each, and of all together."""

    listed_s: float = 0.0
    listed: dict[str, object] = field(default_factory=dict)
    kept: dict[str, tuple[object, _Kept]] = field(default_factory=dict)
    joined: _Kept | None = None

    def waiting(self) -> list[str]:
        """Files that are not read as they are now, newest first: paths are in the order of their hours."""
        found = [path for path, mark in self.listed.items() if path not in self.kept or self.kept[path][0] != mark]
        return sorted(found, reverse=True)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """`waiting`: files of the window that are not read yet."""

    waiting: int = 0
    problem: str | None = None


class ParityLog:
    """One model's; thread-safe. Whoever reads ahead holds `lock` over a `refresh`, as of the request log."""

    def __init__(self, data_url: str, model: str, streams_dir: Path | None) -> None:
        self._fs, root = fsspec.core.url_to_fs(data_url)
        self._root, self._model, self._streams_dir = str(root).rstrip("/"), model, streams_dir
        self._days: dict[date, _Day] = {}
        self.lock = threading.RLock()

    def read(self, window: Window) -> Compared:
        """What the log says of a window, as far as it is read in time; its own trouble is told, never raised."""
        with self.lock:
            # Streams first: one that is rotated in between is then found among the files.
            streams = list(self._streams())
            patience_s = PATIENCE_S if self._days else FIRST_PATIENCE_S
            found = self.refresh(window.start_s, window.end_s, window.now_s, patience_s)
            asked = _days(window.start_s, window.end_s)
            days = [self._days[day] for day in asked if day in self._days]
            parts = [_joined_day(day) for day in days if day.kept]
            rotated = {tuple(path.rsplit("/", 3)[1:]) for day in days for path in day.listed} if streams else set()
        parts += _without_rotated(streams, rotated)
        problem = found.problem
        if found.waiting:
            problem = f"{found.waiting} files of the parity log are not read yet: reload in a moment"
        return replace(_joined(parts, window), problem=problem)

    def refresh(self, start_s: int, end_s: int, now_s: int, budget_s: float | None = None) -> Refreshed:
        """Reads what is new in these seconds, newest first, for as long as the budget lasts; None: all."""
        until_s = None if budget_s is None else time.monotonic() + budget_s
        waiting, done = 0, 0
        with self.lock:
            oldest = min(utc(start_s).date(), utc(now_s - _KEPT_S).date())
            self._days = {day: kept for day, kept in self._days.items() if day >= oldest}
            for day in reversed(_days(start_s, end_s)):
                try:
                    kept = self._listed(day, utc(now_s).date())
                except OSError as error:
                    logger.warning("the parity log cannot be listed", exc_info=True)
                    return Refreshed(problem=f"The parity log cannot be listed ({type(error).__name__})")
                for path in kept.waiting():
                    if until_s is not None and done and time.monotonic() >= until_s:
                        waiting += 1
                        continue
                    kept.kept[path] = kept.listed[path], self._read_file(path)
                    kept.joined, done = None, done + 1
        return Refreshed(waiting)

    def save(self) -> None:
        """Nothing: its few rows are read again."""

    def _listed(self, day: date, today: date) -> _Day:
        """The day as it is now; of days before yesterday as it was a moment ago."""
        kept, now_s = self._days.setdefault(day, _Day()), time.monotonic()
        if kept.listed_s and day < today - _DAY and now_s - kept.listed_s <= _SETTLED_LISTING_S:
            return kept
        kept.listed, kept.listed_s = dict(self._list_day(day)), now_s
        if kept.kept.keys() - kept.listed.keys():
            kept.kept = {path: one for path, one in kept.kept.items() if path in kept.listed}
            kept.joined = None
        return kept

    def _list_day(self, day: date) -> Iterator[tuple[str, object]]:
        folder = f"{self._root}/{parity_day_path(self._model, day)}"
        if isinstance(self._fs, LocalFileSystem):
            yield from _local_files(folder)
            return
        self._fs.invalidate_cache(folder)
        for path, info in self._fs.find(folder, detail=True).items():
            if _is_file_of_log(path.rpartition("/")[2]):
                yield path, (info.get("size"), info.get("mtime"), info.get("ETag"))

    def _read_file(self, path: str) -> _Kept:
        try:
            with self._fs.open(path, "rb") as file:
                return _folded(pq.ParquetFile(file).read())
        except _ERRORS:
            logger.warning("a file of the parity log cannot be read", extra={"path": path}, exc_info=True)
            return _Kept(_NO_COUNTS, [], None, unread=1)

    def _streams(self) -> Iterator[tuple[str, pa.Table]]:
        """Each stream's name without its suffix, and its rows up to the last flush."""
        if self._streams_dir is None:
            return
        for path in sorted(self._streams_dir.glob("*" + STREAM_SUFFIX)):
            if stream_model(path.name) == self._model:
                batches = list(_batches(path))
                if batches:
                    yield path.name.removesuffix(STREAM_SUFFIX), pa.Table.from_batches(batches)


def _days(start_s: int, end_s: int) -> list[date]:
    first = utc(start_s).date()
    return [first + _DAY * number for number in range((utc(end_s - 1).date() - first).days + 1)]


def _is_file_of_log(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def _local_files(folder: str) -> Iterator[tuple[str, object]]:
    """By the operating system, which is ten times as quick as fsspec."""
    if not Path(folder).is_dir():
        return
    with os.scandir(folder) as hours:
        names = [hour.path for hour in hours if hour.is_dir()]
    for hour in names:
        with suppress(FileNotFoundError), os.scandir(hour) as files:
            for file in files:
                if _is_file_of_log(file.name):
                    stat = file.stat()
                    yield file.path, (stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Read, not mapped: a mapped file that is removed and shrinks would end the process."""
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            while True:
                yield reader.read_next_batch()
    except (StopIteration, EOFError, *_ERRORS):
        return  # its end, or half a message


def _without_rotated(streams: list[tuple[str, pa.Table]], rotated: set[tuple[str, ...]]) -> Iterator[_Kept]:
    """Args: rotated: (date, hour, name) of files that there are."""
    for name, table in streams:
        hours = pc.floor_temporal(table["time"], unit="hour")
        for hour in pc.unique(hours).to_pylist():
            place = (f"date={hour:%Y-%m-%d}", f"hour={hour:%H}", f"{name}.parquet")
            if place not in rotated:
                yield _folded(table.filter(pc.equal(hours, pa.scalar(hour, hours.type))))


def _folded(table: pa.Table) -> _Kept:
    columns = {
        name: table[name].cast(PARITY.field(name).type)
        if name in table.column_names
        else pa.nulls(table.num_rows, PARITY.field(name).type)
        for name in PARITY.names
    }
    rows = pa.table(columns)
    minute = pc.cast(pc.divide(pc.cast(rows["time"], pa.int64()), 60_000_000), pa.int64())
    counts = rows.append_column("minute", minute).group_by(["minute", *_COUNTED]).aggregate([([], "count_all")])
    differs = pc.and_(pc.is_valid(rows["kind"]), pc.not_equal(rows["kind"], Kind.EQUAL.value))
    found = rows.filter(pc.fill_null(differs, False)).sort_by([("time", "descending")])
    newest = pc.max(rows["time"]).as_py()
    return _Kept(counts, found.slice(0, SHOWN_DIFFERENCES).to_pylist(), newest)


_NO_COUNTS = _folded(PARITY.empty_table()).counts


def _joined_day(day: _Day) -> _Kept:
    """Of all files of a day that are read; put together when one has come or gone."""
    if day.joined is None:
        parts = [one for _, one in day.kept.values()]
        day.joined = _Kept(
            pa.concat_tables([_NO_COUNTS, *(part.counts for part in parts)]).combine_chunks(),
            _newest([row for part in parts for row in part.differences]),
            max((part.newest for part in parts if part.newest is not None), default=None),
            len(parts),
            sum(part.unread for part in parts),
        )
    return day.joined


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["time"], reverse=True)[:SHOWN_DIFFERENCES]


def _joined(parts: list[_Kept], window: Window) -> Compared:
    counts = pa.concat_tables([_NO_COUNTS, *(part.counts for part in parts)])
    first, last = window.start_s // 60, window.end_s // 60
    inside = pc.and_(pc.greater_equal(counts["minute"], first), pc.less(counts["minute"], last))
    found = counts.filter(inside)
    step = pc.divide(pc.subtract(found["minute"], first), window.range.step_s // 60)
    by_step = found.append_column("step", step).group_by(["step", *_COUNTED]).aggregate([("count_all", "sum")])
    differences = [row for part in parts for row in part.differences]
    return Compared(
        [(row["step"], row["kind"], row["skipped"], row["count_all_sum"]) for row in by_step.to_pylist()],
        _newest([row for row in differences if window.start_s <= row["time"].timestamp() < window.end_s]),
        max((part.newest for part in parts if part.newest is not None), default=None),
        sum(part.files for part in parts),
        sum(part.unread for part in parts),
    )
