"""A finished stream to Parquet under the data root: a file for each hour it touches, visible only when whole.

File names follow from the stream's, so a conversion that was cut and runs again replaces what it wrote before.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from online.api.requestlog.stream import Claimed
from schemas.arrow import REQUEST_LOG
from schemas.names import COMPACTED_FILE, compacted_names, requests_hour_path, stream_model

log = logging.getLogger(__name__)

# Of a row group: what a conversion holds at a time; 64 MB of stream then take some 60 MB of memory.
_GROUP_ROWS = 20_000
# Gathered by Arrow: each write to fsspec's file takes the interpreter from the event loop.
_BUFFER_BYTES = 1 << 20

# Columns whose values are mostly distinct: to look for repeated ones costs a third of the writing, and space.
_DISTINCT = ("time", "request_id", "entity", "confidence", "age_ms", "total_us", "inputs", "outputs")

HourPath = Callable[[str, datetime], str]


class ParquetFolder:
    """A log under a data root; `hour_path` is where one hour of it lies."""

    def __init__(
        self, data_url: str, hour_path: HourPath = requests_hour_path, schema: pa.Schema = REQUEST_LOG
    ) -> None:
        self._fs, root = fsspec.core.url_to_fs(data_url)
        self._hour_path, self._schema = hour_path, schema
        self._root = str(root).rstrip("/")

    def take(self, stream: Claimed) -> int:
        """Writes the stream's rows and removes it. Returns the rows. Raises OSError, and what the store raises."""
        rows, hours = 0, dict[datetime, _HourFile | None]()
        with ExitStack() as being_written:
            for table in _chunks(stream.batches(), self._schema):
                rows += table.num_rows
                for hour, part in _by_hour(table):
                    if hour not in hours:
                        hours[hour] = self._begin(stream, hour, being_written)
                    if (file := hours[hour]) is not None:
                        file.writer.write_table(part)
        for file in hours.values():
            if file is not None:
                self._fs.mv(file.staged, file.path)
        stream.path.unlink()
        return rows

    def _begin(self, stream: Claimed, hour: datetime, being_written: ExitStack) -> "_HourFile | None":
        """None where a conversion that was cut left this hour's file, and compaction has merged it since.

        Readers skip names that begin with a dot; the rename makes it a file.
        """
        folder = f"{self._root}/{self._hour_path(stream_model(stream.path.name), hour)}"
        name = f"{stream.path.stem}.parquet"
        if name in self._compacted(folder):
            return None
        self._fs.makedirs(folder, exist_ok=True)
        staged = f"{folder}/.{name}.part"
        opened = being_written.enter_context(self._fs.open(staged, "wb"))
        gathered = being_written.enter_context(pa.output_stream(opened, buffer_size=_BUFFER_BYTES))
        few = [field.name for field in self._schema if field.name not in _DISTINCT]
        writer = being_written.enter_context(
            pq.ParquetWriter(gathered, self._schema, compression="zstd", use_dictionary=few)
        )
        return _HourFile(staged, f"{folder}/{name}", writer)

    def _compacted(self, folder: str) -> frozenset[str]:
        try:
            return compacted_names(self._fs.cat_file(f"{folder}/{COMPACTED_FILE}"))
        except FileNotFoundError:
            return frozenset()


class _HourFile(NamedTuple):
    """An hour's rows on their way to `path`."""

    staged: str
    path: str
    writer: pq.ParquetWriter


def _chunks(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """A row group's worth at a time, so that a large stream takes no more memory than a small one."""
    kept, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            yield pa.Table.from_batches(kept, schema)
            kept, rows = [], 0
    if rows:
        yield pa.Table.from_batches(kept, schema)


def _by_hour(table: pa.Table) -> Iterator[tuple[datetime, pa.Table]]:
    """Rows whose hour differs go to partitions of their own."""
    ends: Any = pc.min_max(table["time"])
    first, last = (pc.floor_temporal(ends[end], unit="hour") for end in ("min", "max"))
    if first == last:  # as nearly always; nothing is copied
        yield first.as_py().astimezone(UTC), table
        return
    hours: Any = pc.floor_temporal(table["time"], unit="hour")
    for hour in pc.unique(hours).to_pylist():
        yield hour.astimezone(UTC), table.filter(pc.equal(hours, pa.scalar(hour, hours.type)))
