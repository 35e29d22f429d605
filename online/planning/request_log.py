"""Reading the request log: the busiest minutes behind each store that answers first, and how long answers take.

Rows are counted as the analysts' site counts them: what was refused with 4xx needs no replica, a failed answer
(5xx) would have needed one. Rows of another system's log (no source, status 200) only tell when requests came.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from online.planning.log_rows import COUNTED, Durations, LogRows, TimesByRows
from online.planning.outside import Outside
from online.planning.profile_file import BadFile

_MODEL = re.compile(r"/model=([^/]+)/")
_BATCH_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Peak:
    """The busiest minute."""

    at: datetime
    requests: int

    @property
    def per_s(self) -> float:
        return self.requests / 60


@dataclass(frozen=True)
class Logged:
    """What a model's log says.

    Attributes:
        is_own: rows are answers of this system; else they tell when requests came, and for which entities.
        left_out: rows of the other kind, and those without a usable time.
        hot_missed_peak: of requests that were not precomputed, or not in the hot set given; None: not known.
        cache_missed_peak: of those that no cache answered either.
        hit, live: whole answers; outside: of live answers, what is not queue, batch and device; None without any.
        on_device: of live answers, how long their batch took.
    """

    model: str
    is_own: bool
    files: int
    requests: int
    left_out: int
    first: datetime
    last: datetime
    peak: Peak
    hot_missed_peak: Peak | None
    cache_missed_peak: Peak | None
    hot_share: float | None
    cache_share: float | None
    hit: Durations
    live: Durations
    outside: Outside | None
    on_device: TimesByRows

    @property
    def span_s(self) -> float:
        return max(60.0, (self.last - self.first).total_seconds())

    @property
    def mean_per_s(self) -> float:
        return self.requests / self.span_s


@dataclass
class _Counts:
    """Requests by minute, of all and of what is left behind each store."""

    all: Counter[int] = field(default_factory=Counter)
    hot_missed: Counter[int] = field(default_factory=Counter)
    cache_missed: Counter[int] = field(default_factory=Counter)

    def add(
        self, minutes: npt.NDArray[np.int64], hot: npt.NDArray[np.bool_], cached: npt.NDArray[np.bool_]
    ) -> None:
        for counter, kept in (
            (self.all, np.ones(len(minutes), bool)),
            (self.hot_missed, ~hot),
            (self.cache_missed, ~hot & ~cached),
        ):
            values, times = np.unique(minutes[kept], return_counts=True)
            counter.update(dict(zip(values.tolist(), times.tolist(), strict=True)))


def read_log(
    url: str,
    model: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    hot_set: str | None = None,
) -> Logged:
    """Counts the Parquet files below a folder, `requests/` or any part of it, on any fsspec URL.

    Args:
        model: of several below the folder.
        since, until: of `time`, the later one excluded.
        hot_set: a Parquet file with a column `entity`: what would be precomputed, whatever answered then.

    Raises:
        BadFile: nothing to read, several models and none named, or a file that is no request log.
    """
    fs, files, name = _files(url, model)
    hot = _entities(hot_set) if hot_set else None
    own, other, left_out = _Counts(), _Counts(), 0
    hit, live, outside, on_device = Durations(), Durations(), TimesByRows(), TimesByRows()
    for table in _tables(fs, files, [name for name in COUNTED.names if hot is not None or name != "entity"]):
        rows = LogRows(_within(table, since, until), hot)
        own.add(*rows.chosen(rows.is_own))
        other.add(*rows.chosen(rows.is_imported))
        left_out += rows.without_time
        hit.add(rows.total_us[rows.is_own & rows.is_hit])
        live.add(rows.total_us[rows.is_own & rows.is_live])
        is_timed = rows.is_own & rows.is_live & ~np.isnan(rows.outside_us)
        outside.add(rows.outside_us[is_timed], rows.batch_rows[is_timed])
        is_sized = is_timed & rows.has_rows
        on_device.add(rows.on_device_us[is_sized], rows.batch_rows[is_sized])
    is_own = sum(own.all.values()) > 0
    counts, rest = (own, other) if is_own else (other, own)
    if not counts.all:
        raise BadFile(f"{url}: no request with a time in {len(files)} files")
    left_out += sum(rest.all.values())
    return _logged(
        name, is_own, len(files), counts, left_out, is_own or hot is not None, hit, live, outside, on_device
    )


def _logged(
    model: str,
    is_own: bool,
    files: int,
    counts: _Counts,
    left_out: int,
    is_hot_known: bool,
    hit: Durations,
    live: Durations,
    outside: TimesByRows,
    on_device: TimesByRows,
) -> Logged:
    requests = sum(counts.all.values())
    hot_missed, cache_missed = sum(counts.hot_missed.values()), sum(counts.cache_missed.values())
    minutes = sorted(counts.all)
    peak = _peak(counts.all, minutes[0])
    return Logged(
        model=model,
        is_own=is_own,
        files=files,
        requests=requests,
        left_out=left_out,
        first=_moment(minutes[0]),
        last=_moment(minutes[-1] + 1),
        peak=peak,
        hot_missed_peak=_peak(counts.hot_missed, minutes[0]) if is_hot_known else None,
        cache_missed_peak=_peak(counts.cache_missed, minutes[0]) if is_own else None,
        hot_share=1 - hot_missed / requests if is_hot_known else None,
        cache_share=1 - cache_missed / hot_missed if is_own and hot_missed else None,
        hit=hit,
        live=live,
        outside=outside.outside(),
        on_device=on_device,
    )


def _files(url: str, model: str | None) -> tuple[fsspec.AbstractFileSystem, list[str], str]:
    fs, root = fsspec.core.url_to_fs(url)
    found = sorted(path for path in fs.find(root) if path.endswith(".parquet"))
    if not found:
        raise BadFile(f"{url}: no Parquet files there")
    models = {match[1] if (match := _MODEL.search(path)) else "" for path in found}
    if model is not None and model not in models:
        raise BadFile(f"{url}: no log of the model {model} there, but of {', '.join(sorted(models)) or 'none'}")
    if model is None and len(models) > 1:
        raise BadFile(f"{url}: logs of several models: {', '.join(sorted(models))}; name one with --model")
    name = model if model is not None else models.pop()
    return fs, [path for path in found if f"/model={name}/" in path] if name else found, name


def _tables(fs: fsspec.AbstractFileSystem, files: Iterable[str], names: Sequence[str]) -> Iterator[pa.Table]:
    for path in files:
        try:
            with fs.open(path, "rb") as file:
                parquet = pq.ParquetFile(file)
                if "time" not in parquet.schema_arrow.names:
                    raise BadFile(f"{path}: no column `time`: not a request log")
                wanted = [name for name in names if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=wanted):
                    yield _as_declared(pa.Table.from_batches([batch]))
        except (OSError, pa.ArrowException) as error:
            raise BadFile(f"{path}: {str(error).splitlines()[0]}") from None


def _as_declared(table: pa.Table) -> pa.Table:
    """With every column that is counted here, of its declared type; an older log's lack some."""
    arrays = [
        table[column.name].cast(column.type)
        if column.name in table.column_names
        else pa.nulls(len(table), column.type)
        for column in COUNTED
    ]
    return pa.table(arrays, schema=pa.schema([column.with_nullable(True) for column in COUNTED]))


def _within(table: pa.Table, since: datetime | None, until: datetime | None) -> pa.Table:
    if since is not None:
        table = table.filter(pc.greater_equal(table["time"], pa.scalar(since, COUNTED.field("time").type)))
    if until is not None:
        table = table.filter(pc.less(table["time"], pa.scalar(until, COUNTED.field("time").type)))
    return table


def _entities(url: str) -> pa.Array:
    """Of one Parquet file, or of all in a folder."""
    fs, root = fsspec.core.url_to_fs(url)
    found: list[pa.ChunkedArray] = []
    for path in sorted(path for path in fs.find(root) if path.endswith(".parquet")):
        try:
            with fs.open(path, "rb") as file:
                found.append(pq.read_table(file, columns=["entity"])["entity"].cast(pa.string()))
        except (OSError, pa.ArrowException) as error:
            raise BadFile(f"{path}: {str(error).splitlines()[0]}") from None
    if not found:
        raise BadFile(f"{url}: no Parquet files there")
    return pa.concat_arrays([chunk for column in found for chunk in column.chunks])


def _peak(counts: Counter[int], first_minute: int) -> Peak:
    """Of equals the first; a minute without any request where there is none at all."""
    if not counts:
        return Peak(_moment(first_minute), 0)
    minute = min(counts, key=lambda one: (-counts[one], one))
    return Peak(_moment(minute), counts[minute])


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)
