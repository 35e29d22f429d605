"""Figures kept of one model's request log, in an in-memory DuckDB: each file is read once, when it first shows up.

`refresh` brings them up to date with the files and the unrotated streams of a window; a file that cannot be read
is set aside with the reason. Rows are never counted twice: a stream's rows of an hour go when that hour's Parquet
file, which carries the stream's name, is there. Not thread-safe: the caller holds `lock` over a refresh and the
queries that belong to it.
"""

import logging
import threading
from dataclasses import dataclass
from itertools import count

import duckdb
import pyarrow as pa

from online.monitor.requestlog import sql
from online.monitor.requestlog.files import LogFile, LogFolder
from online.monitor.requestlog.streams import StreamFolder, stream_of

CHUNK_FILES = 64
# The 24-hour range is the longest that is cut finer than an hour.
FINE_HOURS = 27
KEPT_HOURS = 30 * 24

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that cannot be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a window's figures were read from."""

    files: int
    streams: int
    set_aside: tuple[SetAside, ...]
    problem: str | None = None


@dataclass(slots=True)
class _Known:
    file: LogFile
    id: int
    reason: str | None = None


class KeptLog:
    """One model's log. Close it when done."""

    def __init__(self, folder: LogFolder, streams: StreamFolder | None, threads: int, memory_mb: int) -> None:
        self.lock = threading.RLock()
        self.connection = _connect(folder, threads, memory_mb)
        self._folder, self._streams = folder, streams
        self._known: dict[str, _Known] = {}
        self._stream_ids: dict[str, int] = {}
        self._superseded: set[tuple[str, int]] = set()
        self._ids = count(1)
        self._coarse_before = 0

    def close(self) -> None:
        """Ends a query that is running, then the database."""
        self.connection.interrupt()
        with self.lock:
            self.connection.close()

    def refresh(self, start_s: int, end_s: int, now_s: int) -> Coverage:
        """Takes in what is new in the window; the log's own trouble is told in the coverage, never raised."""
        self._age(now_s // 3600)
        # Streams first: one that is rotated in between is then found among the files, and its copy dropped.
        live = self._take_streams()
        try:
            listed = self._folder.within(start_s, end_s)
        except OSError as error:
            logger.warning("the request log cannot be listed", exc_info=True)
            return Coverage(0, len(live), (), f"the request log cannot be listed ({type(error).__name__})")
        self._drop_gone(listed, start_s // 3600, (end_s - 1) // 3600)
        fresh = [file for file in listed if not self._is_current(file)]
        for is_young in (True, False):
            chunk = [file for file in fresh if (file.hour >= now_s // 3600 - FINE_HOURS) is is_young]
            for place in range(0, len(chunk), CHUNK_FILES):
                self._take_files(chunk[place : place + CHUNK_FILES], is_young)
        self._supersede(listed, live)
        known = [self._known[file.path] for file in listed]
        bad = tuple(SetAside(k.file.path, k.reason) for k in known if k.reason is not None)
        return Coverage(len(known) - len(bad), len(live), bad)

    def latest(self, start_s: int, end_s: int, limit: int) -> list[tuple[object, ...]]:
        """The newest rows, newest first: time in microseconds, then `sql.LATEST_COLUMNS`."""
        limits = {"start": start_s * 1_000_000, "end": end_s * 1_000_000, "limit": limit}
        rows = [row for name in self._stream_ids for row in self._latest_of_stream(name, limits)]
        good = [k.file for k in self._known.values() if k.reason is None]
        good = [file for file in good if start_s // 3600 <= file.hour <= (end_s - 1) // 3600]
        in_files = 0
        for hour in sorted({file.hour for file in good}, reverse=True):
            try:
                self._show([file for file in good if file.hour == hour])
                found = self.connection.execute(sql.LATEST, limits).fetchall()
            except duckdb.IOException:
                # Compacted or retired a moment ago; the next refresh knows.
                continue
            rows, in_files = rows + found, in_files + len(found)
            if in_files >= limit:
                break
        return sorted(rows, key=lambda row: int(str(row[0])), reverse=True)[:limit]

    def _latest_of_stream(self, name: str, limits: dict[str, int]) -> list[tuple[object, ...]]:
        tail = self._streams.tail(name) if self._streams else None
        if tail is None:
            return []
        self.connection.register("stream_rows", sql.without_outputs(tail))
        self.connection.execute(sql.stream_view(self._stream_ids[name]))
        found: list[tuple[object, ...]] = self.connection.execute(sql.LATEST, limits).fetchall()
        return [row for row in found if (name, int(str(row[0])) // 3_600_000_000) not in self._superseded]

    def _age(self, hour: int) -> None:
        """Once an hour: what is too old for any range goes, what only long ranges need gets coarser."""
        fine_from = (hour - FINE_HOURS) * 60
        if fine_from <= self._coarse_before:
            return
        self._coarse_before = fine_from
        old = [known for known in self._known.values() if known.file.hour < hour - KEPT_HOURS]
        self._forget([known.id for known in old])
        for known in old:
            del self._known[known.file.path]
        for statement in sql.COARSEN.strip().rstrip(";").split(";"):
            self.connection.execute(statement, {"before": fine_from} if "$before" in statement else None)

    def _take_streams(self) -> set[str]:
        """Reads what was flushed since the last refresh. Returns the names of the streams that are there."""
        if self._streams is None:
            return set()
        live = set()
        for name, rows in self._streams.read_new():
            live.add(name)
            file = self._stream_ids.setdefault(name, next(self._ids))
            if rows is not None:
                self._take_stream_rows(name, file, rows)
        for name in set(self._stream_ids) - live:
            self._forget([self._stream_ids.pop(name)])
            self._superseded = {pair for pair in self._superseded if pair[0] != name}
        return live

    def _take_stream_rows(self, name: str, file: int, rows: pa.Table) -> None:
        try:
            self.connection.register("stream_rows", sql.without_outputs(rows))
            self.connection.execute(sql.stream_view(file))
            self._insert(is_young=True)
        except (duckdb.BinderException, duckdb.ConversionException):
            # Of another schema than ours can read: the rows are counted once they are Parquet, or set aside there.
            logger.warning("rows of a stream cannot be read", extra={"stream": name}, exc_info=True)

    def _supersede(self, listed: list[LogFile], live: set[str]) -> None:
        """Drops a live stream's rows of the hours that are already in Parquet."""
        for file in listed:
            name = stream_of(file.name)
            if name in live and self._known[file.path].reason is None:
                self._superseded.add((name, file.hour))
        for name, hour in self._superseded:
            where = {"file": self._stream_ids[name], "first": hour * 60, "last": hour * 60 + 59}
            for table in ("minutes", "latencies"):
                self.connection.execute(
                    f"DELETE FROM {table} WHERE file = $file AND minute BETWEEN $first AND $last", where
                )

    def _is_current(self, file: LogFile) -> bool:
        known = self._known.get(file.path)
        return known is not None and known.file.signature == file.signature

    def _drop_gone(self, listed: list[LogFile], first_hour: int, last_hour: int) -> None:
        """Forgets files of the listed hours that have gone or have other bytes now."""
        present = {file.path: file.signature for file in listed}
        gone = [
            known
            for known in self._known.values()
            if first_hour <= known.file.hour <= last_hour and present.get(known.file.path) != known.file.signature
        ]
        self._forget([known.id for known in gone])
        for known in gone:
            del self._known[known.file.path]

    def _forget(self, ids: list[int]) -> None:
        if ids:
            for table in ("minutes", "latencies"):
                self.connection.execute(f"DELETE FROM {table} WHERE list_contains($ids, file)", {"ids": ids})

    def _take_files(self, files: list[LogFile], is_young: bool) -> None:
        """Reads files together; where that fails, halves them until what cannot be read stands alone."""
        for file in files:
            self._known.setdefault(file.path, _Known(file, next(self._ids)))
        try:
            self._show(files)
            self._insert(is_young)
        except (duckdb.Error, pa.ArrowInvalid, OSError) as error:
            if isinstance(error, duckdb.InterruptException | duckdb.OutOfMemoryException):
                for file in files:
                    del self._known[file.path]
                raise
            if len(files) > 1:
                middle = len(files) // 2
                self._take_files(files[:middle], is_young)
                self._take_files(files[middle:], is_young)
                return
            reason = _in_words(error, files[0].path)
            self._known[files[0].path].reason = reason
            logger.warning("set aside a file of the request log", extra={"path": files[0].path, "reason": reason})

    def _show(self, files: list[LogFile]) -> None:
        """Makes `chunk` the rows of these files."""
        names = pa.table(
            {
                "filename": pa.array([file.path for file in files], pa.string()),
                "file": pa.array([self._known[file.path].id for file in files], pa.int32()),
            }
        )
        self.connection.register("chunk_files", names)
        self.connection.execute(sql.files_view([file.path for file in files]))

    def _insert(self, is_young: bool) -> None:
        slot = sql.FINE_SLOT_MINUTES if is_young else sql.COARSE_SLOT_MINUTES
        self.connection.execute("BEGIN")
        try:
            self.connection.execute(sql.INSERT_MINUTES)
            self.connection.execute(sql.INSERT_LATENCIES, {"slot": slot})
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise


def _connect(folder: LogFolder, threads: int, memory_mb: int) -> duckdb.DuckDBPyConnection:
    """An in-memory database that fetches nothing from the internet and writes nothing to the disk."""
    connection = duckdb.connect(":memory:", config={"threads": threads, "memory_limit": f"{memory_mb}MB"})
    for setting in (
        "autoinstall_known_extensions = false",
        "temp_directory = ''",
        "TimeZone = 'UTC'",
        "preserve_insertion_order = false",
    ):
        connection.execute(f"SET {setting}")
    if not folder.is_local:
        connection.register_filesystem(folder.fs)
    connection.execute(sql.CREATE)
    connection.register("template_rows", sql.without_outputs(sql.EMPTY))
    connection.execute("CREATE TABLE template AS SELECT * FROM template_rows")
    return connection


def _in_words(error: Exception, path: str) -> str:
    """The first line of the error, without the path, which stands beside it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].replace(path, "file")[:200]
