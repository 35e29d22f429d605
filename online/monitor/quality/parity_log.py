"""The log of hits that the API computed again: counts by minute, and the newest that differed.

Each Parquet file is read once and folded into counts; unrotated streams are read as they are, since they hold a
few rows a second at most. Rows of a stream's hour go when the hour's Parquet file, which has its name, is there.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from online.monitor.windows import Window, utc
from schemas.arrow import PARITY
from schemas.names import STREAM_SUFFIX, parity_day_path, stream_model
from schemas.parity import Kind

logger = logging.getLogger(__name__)

SHOWN_DIFFERENCES = 50
_DAY = timedelta(days=1)
_KEPT_S = 30 * 86_400
_LONG_AGO = utc(0)
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


@dataclass(frozen=True, slots=True)
class _Kept:
    signature: object
    counts: pa.Table
    differences: list[dict[str, Any]]
    newest: datetime | None
    is_readable: bool = True


@dataclass(frozen=True, slots=True)
class Refreshed:
    """`waiting`: files of the window that are not read yet."""

    listed: Mapping[str, object] = field(default_factory=dict)
    waiting: int = 0
    problem: str | None = None


class ParityLog:
    """One model's; thread-safe. Whoever reads ahead holds `lock` over a `refresh`, as of the request log."""

    def __init__(self, data_url: str, model: str, streams_dir: Path | None) -> None:
        self._fs, root = fsspec.core.url_to_fs(data_url)
        self._root, self._model, self._streams_dir = str(root).rstrip("/"), model, streams_dir
        self._kept: dict[str, _Kept] = {}
        self._settled: dict[date, tuple[float, list[tuple[str, object]]]] = {}
        self.lock = threading.RLock()

    def read(self, window: Window) -> Compared:
        """What the log says of a window, as far as it is read in time; its own trouble is told, never raised."""
        with self.lock:
            # Streams first: one that is rotated in between is then found among the files.
            streams = list(self._streams())
            found = self.refresh(
                window.start_s, window.end_s, window.now_s, PATIENCE_S if self._kept else FIRST_PATIENCE_S
            )
            kept = [self._kept[path] for path in found.listed if path in self._kept]
        parts = [*kept, *_without_rotated(streams, found.listed)]
        problem = found.problem
        if found.waiting:
            problem = f"{found.waiting} files of the parity log are not read yet: reload in a moment"
        return replace(_joined(parts, window), problem=problem)

    def refresh(self, start_s: int, end_s: int, now_s: int, budget_s: float | None = None) -> Refreshed:
        """Reads what is new in these seconds, newest first, for as long as the budget lasts; None: all."""
        until_s = None if budget_s is None else time.monotonic() + budget_s
        with self.lock:
            try:
                listed = dict(self._listed(start_s, end_s, now_s))
            except OSError as error:
                logger.warning("the parity log cannot be listed", exc_info=True)
                return Refreshed(problem=f"The parity log cannot be listed ({type(error).__name__})")
            self._forget(listed, _day(start_s), _day(end_s - 1))
            # Paths of one log are in the order of their hours.
            fresh = [path for path in sorted(listed, reverse=True) if not self._is_current(path, listed[path])]
            for done, path in enumerate(fresh):
                if until_s is not None and done and time.monotonic() >= until_s:
                    return Refreshed(listed, len(fresh) - done)
                self._kept[path] = self._read_file(path, listed[path])
        return Refreshed(listed)

    def _is_current(self, path: str, signature: object) -> bool:
        return path in self._kept and self._kept[path].signature == signature

    def _listed(self, start_s: int, end_s: int, now: int) -> Iterator[tuple[str, object]]:
        day, end, now_s = utc(start_s).date(), utc(end_s - 1).date(), time.monotonic()
        yesterday = utc(now).date() - _DAY
        while day <= end:
            kept = self._settled.get(day)
            if kept is None or now_s - kept[0] > _SETTLED_LISTING_S:
                kept = (now_s, self._list_day(day))
            if day < yesterday:
                self._settled[day] = kept
            yield from kept[1]
            day += _DAY

    def _list_day(self, day: date) -> list[tuple[str, object]]:
        folder = f"{self._root}/{parity_day_path(self._model, day)}"
        self._fs.invalidate_cache(folder)
        return [
            (path, (info.get("size"), info.get("mtime"), info.get("ETag")))
            for path, info in self._fs.find(folder, detail=True).items()
            if path.endswith(".parquet") and not path.rpartition("/")[2].startswith((".", "_"))
        ]

    def _forget(self, listed: Collection[str], first: str, last: str) -> None:
        """Files that have gone from these days, and those of days before any range."""
        oldest = min(first, _day(time.time() - _KEPT_S))
        for settled in [one for one in self._settled if one.isoformat() < oldest]:
            del self._settled[settled]
        for path in [path for path in self._kept if path not in listed]:
            day = path.rpartition("/date=")[2][: len(first)]
            if first <= day <= last or day < oldest:
                del self._kept[path]

    def _read_file(self, path: str, signature: object) -> _Kept:
        try:
            with self._fs.open(path, "rb") as file:
                return _folded(pq.ParquetFile(file).read(), signature)
        except _ERRORS:
            logger.warning("a file of the parity log cannot be read", extra={"path": path}, exc_info=True)
            return _Kept(signature, _NO_COUNTS, [], None, is_readable=False)

    def _streams(self) -> Iterator[tuple[str, pa.Table]]:
        """Each stream's name without its suffix, and its rows up to the last flush."""
        if self._streams_dir is None:
            return
        for path in sorted(self._streams_dir.glob("*" + STREAM_SUFFIX)):
            if stream_model(path.name) == self._model:
                batches = list(_batches(path))
                if batches:
                    yield path.name.removesuffix(STREAM_SUFFIX), pa.Table.from_batches(batches)


def _day(moment_s: float) -> str:
    return f"{utc(moment_s):%Y-%m-%d}"


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Read, not mapped: a mapped file that is removed and shrinks would end the process."""
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            while True:
                yield reader.read_next_batch()
    except (StopIteration, EOFError, *_ERRORS):
        return  # its end, or half a message


def _without_rotated(streams: list[tuple[str, pa.Table]], listed: Mapping[str, object]) -> Iterator[_Kept]:
    rotated = {tuple(path.rsplit("/", 3)[1:]) for path in listed}
    for name, table in streams:
        hours = pc.floor_temporal(table["time"], unit="hour")
        for hour in pc.unique(hours).to_pylist():
            place = (f"date={hour:%Y-%m-%d}", f"hour={hour:%H}", f"{name}.parquet")
            if place not in rotated:
                yield _folded(table.filter(pc.equal(hours, pa.scalar(hour, hours.type))), None)


def _folded(table: pa.Table, signature: object) -> _Kept:
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
    return _Kept(signature, counts, found.slice(0, SHOWN_DIFFERENCES).to_pylist(), newest)


_NO_COUNTS = _folded(PARITY.empty_table(), None).counts


def _newest_differences(parts: list[_Kept], window: Window) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in sorted(
        (one for one in parts if one.newest), key=lambda one: one.newest or _LONG_AGO, reverse=True
    ):
        if len(found) == SHOWN_DIFFERENCES and (part.newest or _LONG_AGO) < found[-1]["time"]:
            break
        found += [row for row in part.differences if window.start_s <= row["time"].timestamp() < window.end_s]
        found = sorted(found, key=lambda row: row["time"], reverse=True)[:SHOWN_DIFFERENCES]
    return found


def _joined(parts: list[_Kept], window: Window) -> Compared:
    counts = pa.concat_tables([_NO_COUNTS, *(part.counts for part in parts)])
    first, last = window.start_s // 60, window.end_s // 60
    inside = pc.and_(pc.greater_equal(counts["minute"], first), pc.less(counts["minute"], last))
    found = counts.filter(inside)
    step = pc.divide(pc.subtract(found["minute"], first), window.range.step_s // 60)
    by_step = found.append_column("step", step).group_by(["step", *_COUNTED]).aggregate([("count_all", "sum")])
    return Compared(
        [(row["step"], row["kind"], row["skipped"], row["count_all_sum"]) for row in by_step.to_pylist()],
        _newest_differences(parts, window),
        max((part.newest for part in parts if part.newest is not None), default=None),
        len(parts),
        sum(not part.is_readable for part in parts),
    )
