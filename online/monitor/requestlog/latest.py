"""The newest rows of the log, kept by hour so that a new file costs only its own rows."""

from collections.abc import Iterable, Mapping, Sequence

import duckdb

from online.monitor.requestlog.files import LogFile
from online.monitor.requestlog.folding import Folding, Latest

LATEST_ROWS = 50


class LatestRows:
    """Reads hours from the newest on until it has enough. Not thread-safe."""

    def __init__(self, folding: Folding) -> None:
        self._folding = folding
        self._hours: dict[int, tuple[frozenset[LogFile], list[Latest]]] = {}

    def of(self, files: Mapping[int, Sequence[LogFile]], streams: Iterable[Latest]) -> tuple[Latest, ...]:
        """Newest first. Args: good files by hour, and rows of streams that are not in them."""
        found = newest(streams)
        used: dict[int, tuple[frozenset[LogFile], list[Latest]]] = {}
        for hour in sorted(files, reverse=True):
            if len(found) >= LATEST_ROWS and microseconds(found[LATEST_ROWS - 1]) >= (hour + 1) * 3_600_000_000:
                break
            used[hour] = frozenset(files[hour]), self._hour(hour, frozenset(files[hour]))
            found = newest([*found, *used[hour][1]])
        self._hours = used
        return tuple(found)

    def _hour(self, hour: int, files: frozenset[LogFile]) -> list[Latest]:
        known, rows = self._hours.get(hour, (frozenset(), []))
        if known == files:
            return rows
        is_grown = known < files
        fresh = sorted(file.path for file in (files - known if is_grown else files))
        return newest([*(rows if is_grown else []), *self._read(fresh)])

    def _read(self, paths: Sequence[str]) -> list[Latest]:
        """Of all together where their schemas agree, else of each alone; without those that have just gone."""
        try:
            return self._folding.latest_of_files(paths, LATEST_ROWS)
        except duckdb.InterruptException:
            raise
        except duckdb.Error:
            return [row for path in paths for row in self._read([path])] if len(paths) > 1 else []


def newest(rows: Iterable[Latest]) -> list[Latest]:
    return sorted(rows, key=microseconds, reverse=True)[:LATEST_ROWS]


def microseconds(row: Latest) -> int:
    return int(str(row[0]))
