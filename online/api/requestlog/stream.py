"""The local Arrow stream of one worker and model: readable up to its last flush, locked while its worker lives.

Its name is `MODEL~….arrows`; the Parquet files made of it carry the same stem, so that a reader can tell that both
hold the same rows.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.arrow import REQUEST_LOG
from schemas.names import STREAM_SUFFIX, stream_name


class LogStream:
    """Written by one thread. `path` stays locked until `close`."""

    def __init__(self, folder: Path, model: str, schema: pa.Schema = REQUEST_LOG) -> None:
        """Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        unique = f"{time.time_ns() // 1_000_000:x}-{os.getpid():x}-{os.urandom(3).hex()}"
        self.path = folder / f"{stream_name(model, unique)}{STREAM_SUFFIX}"
        self._lock = self.path.open("xb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Arrow's own file, unbuffered: a batch is a hundred writes, and to a file of Python's each would ask for
        # the interpreter, which the event loop has.
        self._file = pa.OSFile(str(self.path), "wb")
        self._writer = pa.ipc.new_stream(self._file, schema)
        self._opened_s = time.monotonic()

    @property
    def size(self) -> int:
        return os.fstat(self._lock.fileno()).st_size

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._opened_s

    def write(self, batch: pa.RecordBatch) -> None:
        """Raises OSError: the stream is then of no further use, and ends before this batch."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Ends the stream and gives up its lock."""
        with self._lock, self._file:
            self._writer.close()


class Claimed:
    """A stream that no worker writes any more, held against other workers. Use as `with`."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path, self._file = path, file

    def __enter__(self) -> "Claimed":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The whole batches: a stream cut by a kill ends in half of one, which is left out."""
        try:
            # Read, not mapped: pages of a mapped file would count as the worker's memory.
            with pa.OSFile(str(self.path)) as file, pa.ipc.open_stream(file) as reader:
                while True:
                    yield reader.read_next_batch()
        except (StopIteration, EOFError, OSError, pa.ArrowInvalid):
            return


def claim(path: Path) -> Claimed | None:
    """None where its worker lives, or another worker was first."""
    try:
        file = path.open("rb")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another worker may have turned it into Parquet and removed it between opening and locking.
        if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return Claimed(path, file)
    except OSError:
        pass
    file.close()
    return None
