"""A finished stream to Parquet under the data root: a file for each hour it touches, visible only when whole.

File names follow from the stream's, so a conversion that was cut and runs again replaces what it wrote before.
"""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from online.api.requestlog.stream import Claimed, model_of
from schemas.arrow import REQUEST_LOG
from schemas.names import COMPACTED_FILE, compacted_names, requests_hour_path

log = logging.getLogger(__name__)


class ParquetFolder:
    """The request log under a data root."""

    def __init__(self, data_url: str) -> None:
        self._fs, root = fsspec.core.url_to_fs(data_url)
        self._root = str(root).rstrip("/")

    def take(self, stream: Claimed) -> int:
        """Writes the stream's rows and removes it. Returns the rows. Raises OSError, and what the store raises."""
        table = pa.Table.from_batches(stream.batches(), REQUEST_LOG)
        for hour, rows in _by_hour(table):
            folder = f"{self._root}/{requests_hour_path(model_of(stream.path), hour)}"
            name = f"{stream.path.stem}.parquet"
            # A conversion that was cut left this hour's file, and compaction has merged it since.
            if name not in self._compacted(folder):
                self._write(folder, name, rows)
        stream.path.unlink()
        return int(table.num_rows)

    def _compacted(self, folder: str) -> frozenset[str]:
        try:
            return compacted_names(self._fs.cat_file(f"{folder}/{COMPACTED_FILE}"))
        except FileNotFoundError:
            return frozenset()

    def _write(self, folder: str, name: str, rows: pa.Table) -> None:
        """Readers skip names that begin with a dot; the rename makes it a file."""
        self._fs.makedirs(folder, exist_ok=True)
        staged = f"{folder}/.{name}.part"
        with self._fs.open(staged, "wb") as file:
            pq.write_table(rows, file, compression="zstd")
        self._fs.mv(staged, f"{folder}/{name}")


def _by_hour(table: pa.Table) -> Iterator[tuple[datetime, pa.Table]]:
    """Rows whose hour differs go to partitions of their own."""
    hours: Any = pc.floor_temporal(table["time"], unit="hour")
    for hour in pc.unique(hours).to_pylist():
        yield hour.astimezone(UTC), table.filter(pc.equal(hours, pa.scalar(hour, hours.type)))
