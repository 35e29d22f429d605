"""The rows that one request left in the log: of streams that are not yet Parquet, and of Parquet.

A request id is no partition, so files are searched by that one column; the rest is read only where it is found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from online.monitor.requestlog.files import LogFile, LogFolder
from online.monitor.requestlog.streams import StreamFolder

Row = dict[str, Any]

# How far from the partition's edge a moment has to be, for the neighbouring hour not to be searched too.
_SLACK = timedelta(minutes=5)
_VISIBLE = frozenset(map(chr, range(0x21, 0x7F)))
_MAX_ID = 128


@dataclass
class Search:
    """What was looked through, and what was found."""

    rows: list[tuple[str, Row]] = field(default_factory=list)
    files: int = 0
    streams: int = 0
    unreadable: list[str] = field(default_factory=list)


def ids_of(request_id: str) -> tuple[str, ...]:
    """As given, and as the API keeps it: visible ASCII, at most 128 characters."""
    kept = "".join(letter for letter in request_id if letter in _VISIBLE)[:_MAX_ID]
    return tuple(dict.fromkeys(one for one in (request_id, kept) if one))


def hours_around(around: datetime) -> tuple[int, int]:
    """Seconds since the epoch, the end exclusive: the hour's partition, and the next one's where it is near."""
    first, last = (around + shift for shift in (-_SLACK, _SLACK))
    return int(first.timestamp()) // 3600 * 3600, (int(last.timestamp()) // 3600 + 1) * 3600


def last_days(days: int, now: datetime | None = None) -> tuple[int, int]:
    end_s = int((now or datetime.now(UTC)).timestamp()) // 3600 * 3600 + 3600
    return end_s - days * 86_400, end_s


def find(
    request_id: str, models: Sequence[str], data_url: str, streams: Path | None, start_s: int, end_s: int
) -> Search:
    """Stops at the newest hour that has it: an id that is used again finds its latest use. Raises OSError."""
    search, wanted = Search(), pa.array(ids_of(request_id), pa.string())
    for model in models:
        streamed = _in_streams(streams, model, wanted, (start_s, end_s), search)
        stored = _in_files(LogFolder(data_url, model), wanted, (start_s, end_s), search)
        # While a stream becomes Parquet its rows are in both.
        known = {_key(row) for row in stored}
        found = [*stored, *(row for row in streamed if _key(row) not in known)]
        search.rows += [(model, row) for row in found]
    search.rows.sort(key=lambda one: one[1]["time"])
    return search


def _in_streams(
    folder: Path | None, model: str, wanted: pa.Array, window_s: tuple[int, int], search: Search
) -> list[Row]:
    found: list[Row] = []
    for _, table in StreamFolder(folder, model).read_new() if folder is not None else ():
        search.streams += 1
        if table is not None:
            found += table.filter(pc.is_in(table["request_id"], wanted)).to_pylist()
    return [row for row in found if window_s[0] <= row["time"].timestamp() < window_s[1]]


def _in_files(folder: LogFolder, wanted: pa.Array, window_s: tuple[int, int], search: Search) -> list[Row]:
    by_hour: dict[int, list[LogFile]] = {}
    for file in folder.within(*window_s).files:
        by_hour.setdefault(file.hour, []).append(file)
    for hour in sorted(by_hour, reverse=True):
        if found := [row for file in by_hour[hour] for row in _in_file(folder, file, wanted, search)]:
            return found
    return []


def _in_file(folder: LogFolder, file: LogFile, wanted: pa.Array, search: Search) -> list[Row]:
    search.files += 1
    try:
        with folder.fs.open(file.path, "rb") as opened:
            return list(_rows(pq.ParquetFile(opened), wanted))
    except FileNotFoundError:
        return []  # compacted or retired a moment ago
    except (OSError, pa.ArrowInvalid) as error:
        search.unreadable.append(f"{file.path}: {error}")
        return []


def _rows(file: pq.ParquetFile, wanted: pa.Array) -> Iterator[Row]:
    """Without Arrow's threads, which now and then abort a process that ends right after (pyarrow 26)."""
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["request_id"], use_threads=False)["request_id"]
        found = pc.is_in(ids, wanted)
        if pc.any(found).as_py():
            yield from file.read_row_group(group, use_threads=False).filter(found).to_pylist()


def _key(row: Row) -> tuple[object, ...]:
    return row["time"], row.get("entity"), row["total_us"], row["status"]
