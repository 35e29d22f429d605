"""What is kept of the streams that are not yet Parquet, without the hours that are. Not thread-safe."""

import logging
from collections.abc import Iterator, Mapping, Set

import duckdb
import pyarrow as pa

from online.monitor.requestlog.folding import Folding, Latest
from online.monitor.requestlog.latest import LATEST_ROWS, microseconds
from online.monitor.requestlog.rows import Part, merged
from online.monitor.requestlog.streams import StreamFolder, parquet_of

_SLOT_MINUTES = 1
# Flushes of a stream are merged when there are so many.
_MERGED_AT = 12

logger = logging.getLogger(__name__)


class StreamParts:
    """`is_changed` is set by what changes figures, and reset by the owner. None for no streams at all."""

    def __init__(self, streams: StreamFolder | None, folding: Folding) -> None:
        self.is_changed = False
        self._streams, self._folding = streams, folding
        self._kept: dict[str, list[Part]] = {}
        self._superseded: set[tuple[str, int]] = set()
        self._latest: dict[str, list[Latest]] = {}

    @property
    def count(self) -> int:
        return len(self._kept)

    def parts(self) -> Iterator[Part]:
        for several in self._kept.values():
            yield from several

    def read_new(self) -> None:
        """Takes what was flushed since the last time, and drops streams that are gone."""
        if self._streams is None:
            return
        live = set()
        for name, rows in self._streams.read_new():
            live.add(name)
            if name not in self._kept:
                self._kept[name], self.is_changed = [], True
            if rows is not None:
                self._take(name, rows)
        for name in set(self._kept) - live:
            del self._kept[name]
            self._superseded = {pair for pair in self._superseded if pair[0] != name}
            self.is_changed = True

    def supersede(self, in_parquet: Mapping[int, Set[str]]) -> None:
        """Args: names of the Parquet files whose rows each hour has."""
        for name in self._kept:
            new = {hour for hour, files in in_parquet.items() if parquet_of(name) in files}
            new -= {hour for stream, hour in self._superseded if stream == name}
            if new:
                self._superseded |= {(name, hour) for hour in new}
                self._drop(name)

    def latest(self) -> list[Latest]:
        self._latest = {name: self._latest.get(name) or self._latest_of(name) for name in self._kept}
        return [
            row
            for name, rows in self._latest.items()
            for row in rows
            if (name, microseconds(row) // 3_600_000_000) not in self._superseded
        ]

    def _take(self, name: str, rows: pa.Table) -> None:
        try:
            folded = self._folding.stream(rows, _SLOT_MINUTES)
        except (duckdb.BinderException, duckdb.ConversionException):
            # Of another schema than ours can read: the rows are counted once they are Parquet, or set aside there.
            logger.warning("rows of a stream cannot be read", extra={"stream": name}, exc_info=True)
            return
        self._latest.pop(name, None)
        several = self._kept[name]
        several.append(folded)
        if len(several) >= _MERGED_AT:
            self._kept[name] = [merged(several, _SLOT_MINUTES)]
        self.is_changed = True
        self._drop(name)

    def _drop(self, name: str) -> None:
        hours = {hour for stream, hour in self._superseded if stream == name}
        if hours:
            self._kept[name] = [one.without_hours(hours) for one in self._kept[name]]
            self.is_changed = True

    def _latest_of(self, name: str) -> list[Latest]:
        tail = self._streams.tail(name) if self._streams else None
        if tail is None:
            return []
        try:
            return self._folding.latest_of_stream(tail, LATEST_ROWS)
        except (duckdb.BinderException, duckdb.ConversionException):
            return []
