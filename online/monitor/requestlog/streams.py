"""The API workers' Arrow streams that are not yet Parquet: read up to the last flush, each byte once.

A stream that is being written, or was cut by a kill, ends in half a message: reading stops there and goes on at
the same place next time. Files are read, not mapped, since a mapped file that shrinks would end the process.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from schemas.names import STREAM_SUFFIX, stream_model

TAIL_ROWS = 100
_END = (EOFError, OSError, pa.ArrowInvalid)


@dataclass(slots=True)
class _Stream:
    """How far a stream has been read; `tail` are its newest rows."""

    offset: int = 0
    schema: pa.Schema | None = None
    tail: list[pa.RecordBatch] = field(default_factory=list)


class StreamFolder:
    """The streams of one model in the API's log folder."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model
        self._streams: dict[str, _Stream] = {}

    def read_new(self) -> Iterator[tuple[str, pa.Table | None]]:
        """Each stream that is there, with the rows flushed since the last call, or None for none."""
        present = {
            path.name: path
            for path in self._folder.glob("*" + STREAM_SUFFIX)
            if stream_model(path.name) == self._model
        }
        self._streams = {name: kept for name, kept in self._streams.items() if name in present}
        for name, path in sorted(present.items()):
            batches = self._read(name, path)
            if batches is not None:
                yield name.removesuffix(STREAM_SUFFIX), pa.Table.from_batches(batches) if batches else None

    def tail(self, name: str) -> pa.Table | None:
        """The newest rows of a stream, at least `TAIL_ROWS` where it has as many."""
        stream = self._streams.get(name + STREAM_SUFFIX)
        return pa.Table.from_batches(stream.tail) if stream and stream.tail else None

    def _read(self, name: str, path: Path) -> list[pa.RecordBatch] | None:
        """New whole batches, or None where the stream has just been rotated away."""
        try:
            with pa.OSFile(str(path)) as file:
                stream = self._streams.setdefault(name, _Stream())
                batches = list(_whole_batches(file, stream))
        except FileNotFoundError:
            self._streams.pop(name, None)
            return None
        stream.tail = _last(stream.tail + batches)
        return batches


def parquet_of(stream: str) -> str:
    """The name of each hour's Parquet file that a stream is turned into."""
    return f"{stream}.parquet"


def _whole_batches(file: pa.NativeFile, stream: _Stream) -> Iterator[pa.RecordBatch]:
    """Batches from where reading stopped; the offset moves past each whole message only."""
    file.seek(stream.offset)
    while True:
        try:
            message = pa.ipc.read_message(file)
            if stream.schema is None:
                stream.schema = pa.ipc.read_schema(message)
            else:
                yield pa.ipc.read_record_batch(message, stream.schema)
        except _END:
            return
        stream.offset = file.tell()


def _last(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    kept, rows = [], 0
    for batch in reversed(batches):
        if rows >= TAIL_ROWS:
            break
        kept.append(batch)
        rows += batch.num_rows
    return kept[::-1]
