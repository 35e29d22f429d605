"""Which Parquet files of a model's request log fall into a window: partition folders pruned by date and hour.

Folder names are read as text (`hour=01`, `model=007` stay what they are). A local data root is listed by the
operating system, any other by fsspec, a day in one call.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from schemas.names import requests_hour_path, requests_model_path

# Days before yesterday change only by compaction and retention, so that their listing may be this old.
SETTLED_LISTING_S = 10.0
_HOUR = re.compile(r"hour=([0-9]{2})\Z")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file as listed. `hour` is its partition's, in hours since the epoch; `signature` changes with it."""

    path: str
    hour: int
    signature: tuple[object, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class LogFolder:
    """The request log of one model under a data root."""

    def __init__(self, data_url: str, model: str) -> None:
        self.fs, root = fsspec.core.url_to_fs(data_url)
        self._root = str(root).rstrip("/")
        self._model = model
        self._settled: dict[str, tuple[float, list[LogFile]]] = {}

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    def check(self) -> None:
        """Raises OSError where the log cannot be listed; one that does not exist yet is an empty one."""
        path = f"{self._root}/{requests_model_path(self._model)}"
        if self.fs.exists(path):
            self.fs.ls(path, detail=False)

    def within(self, start_s: int, end_s: int) -> list[LogFile]:
        """Files of the partitions that a window touches, in order of their hour. Raises OSError."""
        first, last = start_s // 3600, (end_s - 1) // 3600
        self._settled = {day: kept for day, kept in self._settled.items() if day >= _day(first)}
        found = [file for day in _days(first, last) for file in self._list_day(day, last)]
        return sorted((file for file in found if first <= file.hour <= last), key=lambda f: (f.hour, f.path))

    def _list_day(self, day: datetime, last_hour: int) -> list[LogFile]:
        path = requests_hour_path(self._model, day).rpartition("/")[0]
        key, now = f"{day:%Y-%m-%d}", time.monotonic()
        kept = self._settled.get(key)
        if kept is not None and now - kept[0] < SETTLED_LISTING_S:
            return kept[1]
        places = self._local(f"{self._root}/{path}") if self.is_local else self._remote(f"{self._root}/{path}")
        midnight = int(day.timestamp()) // 3600
        found = [
            LogFile(place, midnight + int(match[1]), signature)
            for hour, place, signature in places
            if (match := _HOUR.match(hour)) and int(match[1]) < 24
        ]
        if midnight + 48 <= last_hour:
            self._settled[key] = (now, found)
        return found

    def _local(self, folder: str) -> Iterator[tuple[str, str, tuple[object, ...]]]:
        if not Path(folder).is_dir():
            return
        with os.scandir(folder) as hours:
            names = [entry.name for entry in hours if entry.is_dir()]
        for hour in names:
            with os.scandir(f"{folder}/{hour}") as entries:
                for entry in entries:
                    if is_log_file(entry.name):
                        stat = entry.stat()
                        yield hour, f"{folder}/{hour}/{entry.name}", (stat.st_size, stat.st_mtime_ns, stat.st_ino)

    def _remote(self, folder: str) -> Iterator[tuple[str, str, tuple[object, ...]]]:
        try:
            self.fs.invalidate_cache(folder)
            found = self.fs.find(folder, detail=True)
        except FileNotFoundError:
            return
        for name, info in found.items():
            hour, _, leaf = name.removeprefix(folder).strip("/").partition("/")
            if is_log_file(leaf):
                marks = [str(info.get(key)) for key in ("size", "ETag", "LastModified", "mtime", "created")]
                yield hour, self.fs.unstrip_protocol(name), tuple(marks)


def is_log_file(name: str) -> bool:
    """Names that begin with a dot or an underscore are files still being written, or markers."""
    return name.endswith(".parquet") and not name.startswith((".", "_")) and "/" not in name


def _day(hour: int) -> str:
    return f"{datetime.fromtimestamp(hour * 3600, UTC):%Y-%m-%d}"


def _days(first_hour: int, last_hour: int) -> Iterator[datetime]:
    day = datetime.fromtimestamp(first_hour // 24 * 86_400, UTC)
    while day.timestamp() <= last_hour * 3600:
        yield day
        day += timedelta(days=1)
