"""Which Parquet files of a model's request log fall into a window: partition folders pruned by date and hour.

Folder names are read as text (`hour=01`, `model=007` stay what they are). A local data root is listed by the
operating system, any other by fsspec, a day in one call. An hour that was compacted names the files whose rows are
in compacted ones now: such a file is never listed, should a writer bring it again.
"""

import logging
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from schemas.names import COMPACTED_FILE, compacted_names, requests_hour_path, requests_model_path
from schemas.retention import EVERYTHING, RETENTION_FILE, Retention

# Days before yesterday change only by compaction and retention, so that their listing may be this old: what is
# kept of their files stays right meanwhile.
SETTLED_LISTING_S = 30.0
_HOUR = re.compile(r"hour=([0-9]{2})\Z")
# Hours that may still get a worker's file, the last one included.
_OPEN_HOURS = 2
_SETTLED_NS = 1_000_000_000
# How often an hour is listed again whose folder changed places meanwhile.
_TRIES = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file as listed. `hour` is its partition's, in hours since the epoch; `signature` changes with it."""

    path: str
    hour: int
    signature: tuple[object, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Bytes; 0 where the store does not say."""
        size = str(self.signature[0])
        return int(size) if size.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Listing:
    """Files in order of their hour; for hours that were compacted, the names of files whose rows are in others."""

    files: list[LogFile]
    compacted: Mapping[int, frozenset[str]]
    retention: Retention = EVERYTHING

    def is_kept_of(self, hour: int) -> bool:
        """Whether the figures of a file of this hour stay although it has gone: retention deleted it."""
        day = datetime.fromtimestamp(hour * 3600, UTC).date()
        return self.retention.figures_from <= day < self.retention.log_from


_NO_FILES = Listing([], {})


class LogFolder:
    """The request log of one model under a data root. Not thread-safe."""

    def __init__(self, data_url: str, model: str) -> None:
        self.fs, root = fsspec.core.url_to_fs(data_url)
        self._root = str(root).rstrip("/")
        self._model = model
        self._settled: dict[str, tuple[float, Listing]] = {}
        self._marks: dict[str, tuple[tuple[object, ...], frozenset[str]]] = {}
        self._closed: dict[str, tuple[object, float, Listing]] = {}
        self._retention: tuple[object, Retention] = (None, EVERYTHING)

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    def check(self) -> None:
        """Raises OSError where the log cannot be listed; one that does not exist yet is an empty one."""
        path = f"{self._root}/{requests_model_path(self._model)}"
        if self.fs.exists(path):
            self.fs.ls(path, detail=False)

    def within(self, start_s: int, end_s: int) -> Listing:
        """The partitions that a window touches. Raises OSError."""
        retention = self._retained()
        first = max(start_s // 3600, first_hour(retention.figures_from))
        last = (end_s - 1) // 3600
        oldest = time.monotonic() - SETTLED_LISTING_S
        self._settled = {day: kept for day, kept in self._settled.items() if kept[0] >= oldest}
        self._closed = {folder: kept for folder, kept in self._closed.items() if kept[1] >= oldest}
        days = [self._list_day(day, last) for day in _days(first, last)]
        files = [file for day in days for file in day.files if first <= file.hour <= last]
        compacted = {hour: names for day in days for hour, names in day.compacted.items()}
        return Listing(sorted(files, key=lambda file: (file.hour, file.path)), compacted, retention)

    def exists(self, file: LogFile) -> bool:
        return bool(self.fs.exists(file.path))

    def rows(self, file: LogFile) -> int:
        """As the file's footer says. Raises OSError, pa.ArrowInvalid."""
        with self.fs.open(file.path, "rb") as opened:
            return int(pq.read_metadata(opened).num_rows)

    def _retained(self) -> Retention:
        """What retention says, read when its file has changed; of an object store now and then."""
        path = f"{self._root}/{requests_model_path(self._model)}/{RETENTION_FILE}"
        try:
            mark = _signature(os.stat(path)) if self.is_local else int(time.monotonic() // SETTLED_LISTING_S)
            if mark != self._retention[0]:
                self._retention = mark, Retention.read(self.fs.cat_file(path))
        except FileNotFoundError:
            self._retention = None, EVERYTHING
        except ValueError:
            logger.warning("what retention says cannot be read", extra={"path": path})
            self._retention = mark, EVERYTHING
        return self._retention[1]

    def _list_day(self, day: datetime, last_hour: int) -> Listing:
        path = requests_hour_path(self._model, day).rpartition("/")[0]
        key = f"{day:%Y-%m-%d}"
        if key in self._settled:
            return self._settled[key][1]
        midnight = int(day.timestamp()) // 3600
        folder = f"{self._root}/{path}"
        if self.is_local:
            found = self._local_day(folder, midnight, last_hour)
        else:
            found = self._remote_day(folder, midnight)
        if midnight + 48 <= last_hour:
            self._settled[key] = (time.monotonic(), found)
        return found

    def _local_day(self, folder: str, midnight: int, last_hour: int) -> Listing:
        if not Path(folder).is_dir():
            return _NO_FILES
        with os.scandir(folder) as hours:
            names = [entry.name for entry in hours if entry.is_dir()]
        listings = [
            self._closed_hour(f"{folder}/{name}", hour)
            if hour <= last_hour - _OPEN_HOURS
            else self._local_hour(f"{folder}/{name}", hour)
            for name in names
            for hour in _hours(name, midnight)
        ]
        return _joined(listings)

    def _closed_hour(self, folder: str, hour: int) -> Listing:
        """As it was, while the folder is the same and has got or lost nothing; for so long at most.

        A file that is written in its place, which nothing of ours does, is seen a little later.
        """
        try:
            stat = os.stat(folder)
        except FileNotFoundError:
            return _NO_FILES
        mark, now_s = (stat.st_mtime_ns, stat.st_ino), time.monotonic()
        kept = self._closed.get(folder)
        if kept is None or kept[0] != mark or now_s - kept[1] > SETTLED_LISTING_S:
            kept = mark, now_s, self._local_hour(folder, hour)
            # What has just changed may change again without a newer time.
            if time.time_ns() - stat.st_mtime_ns > _SETTLED_NS:
                self._closed[folder] = kept
        return kept[2]

    def _local_hour(self, folder: str, hour: int) -> Listing:
        """One list of names and the mark that belongs to it: compaction exchanges the folder as a whole."""
        for _ in range(_TRIES):
            try:
                with os.scandir(folder) as entries:
                    found = {entry.name: _signature(entry.stat()) for entry in entries if _is_wanted(entry.name)}
                mark = found.pop(COMPACTED_FILE, None)
                gone = self._compacted(f"{folder}/{COMPACTED_FILE}", mark)
                if mark is None or _signature(os.stat(f"{folder}/{COMPACTED_FILE}")) == mark:
                    return _listed(folder, hour, found, gone)
            except FileNotFoundError:
                continue
        return _NO_FILES

    def _remote_day(self, folder: str, midnight: int) -> Listing:
        try:
            self.fs.invalidate_cache(folder)
            found = self.fs.find(folder, detail=True)
        except FileNotFoundError:
            return _NO_FILES
        by_folder: dict[str, dict[str, tuple[object, ...]]] = defaultdict(dict)
        for name, info in found.items():
            within, _, leaf = name.removeprefix(folder).strip("/").partition("/")
            if _is_wanted(leaf):
                marks = (str(info.get(key)) for key in ("size", "ETag", "LastModified", "mtime", "created"))
                by_folder[within][leaf] = tuple(marks)
        listings = []
        for within, files in by_folder.items():
            mark = files.pop(COMPACTED_FILE, None)
            path = self.fs.unstrip_protocol(f"{folder}/{within}")
            gone = self._compacted(f"{path}/{COMPACTED_FILE}", mark)
            listings += [_listed(path, hour, files, gone) for hour in _hours(within, midnight)]
        return _joined(listings)

    def _compacted(self, path: str, mark: tuple[object, ...] | None) -> frozenset[str]:
        """What a `_compacted.json` with this signature names; it is read once."""
        if mark is None:
            return frozenset()
        kept = self._marks.get(path)
        if kept is None or kept[0] != mark:
            try:
                names = compacted_names(self.fs.cat_file(path))
            except ValueError:
                logger.warning("the mark of a compaction cannot be read", extra={"path": path})
                names = frozenset()
            kept = self._marks[path] = (mark, names)
        return kept[1]


def _is_wanted(name: str) -> bool:
    return name == COMPACTED_FILE or is_log_file(name)


def _signature(stat: os.stat_result) -> tuple[object, ...]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def _hours(name: str, midnight: int) -> list[int]:
    """The hour that a folder's name says, none for another folder."""
    match = _HOUR.match(name)
    return [midnight + int(match[1])] if match and int(match[1]) < 24 else []


def _listed(folder: str, hour: int, files: Mapping[str, tuple[object, ...]], gone: frozenset[str]) -> Listing:
    kept = [LogFile(f"{folder}/{name}", hour, mark) for name, mark in files.items() if name not in gone]
    return Listing(kept, {hour: gone} if gone else {})


def _joined(listings: Iterable[Listing]) -> Listing:
    files: list[LogFile] = []
    compacted: dict[int, frozenset[str]] = {}
    for one in listings:
        files += one.files
        compacted |= one.compacted
    return Listing(files, compacted)


def is_log_file(name: str) -> bool:
    """Names that begin with a dot or an underscore are files still being written, or markers."""
    return name.endswith(".parquet") and not name.startswith((".", "_")) and "/" not in name


def first_hour(day: date) -> int:
    """Of a UTC day, since the epoch."""
    return (day - date(1970, 1, 1)).days * 24


def _days(first_hour: int, last_hour: int) -> Iterator[datetime]:
    day = datetime.fromtimestamp(first_hour // 24 * 86_400, UTC)
    while day.timestamp() <= last_hour * 3600:
        yield day
        day += timedelta(days=1)
