"""The feature table of a night as a file mapped into memory: features for a life without Redis.

A local file is mapped where it lies, any other is copied into the state folder first. pyarrow is loaded only here
and by the writer of the request log, off the start path.
"""

import asyncio
import fcntl
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt

from schemas.codec import CorruptValue
from schemas.feature_table import snapshot_places, unpack_record
from schemas.routes import FeatureTable

log = logging.getLogger(__name__)

_KEPT_TABLES = 2


class Snapshot:
    """One table; to find an entity takes microseconds. Batches are (ascending keys, records)."""

    def __init__(self, batches: list[tuple[npt.NDArray[np.uint64], Any]], features: tuple[str, ...]) -> None:
        self._batches, self._features = batches, features

    def find(self, entities: Sequence[bytes]) -> list[Mapping[str, object] | None]:
        """Each entity's raw record, or None where the table has none."""
        found: list[Mapping[str, object] | None] = [None] * len(entities)
        for keys, records in self._batches:
            for place, rows in enumerate(snapshot_places(keys, entities)):
                for row in rows:
                    try:
                        raw = records[row].as_buffer().to_pybytes()
                        found[place] = unpack_record(raw, entities[place], self._features)
                        break
                    except CorruptValue:  # another entity with the same key
                        continue
        return found


def open_snapshot(path: Path, features: tuple[str, ...]) -> Snapshot:
    """Raises OSError or ValueError where `path` is no snapshot."""
    import pyarrow as pa  # 100 ms and 60 MB: not before it is needed

    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    batches = [reader.get_batch(place) for place in range(reader.num_record_batches)]
    return Snapshot(
        [(batch["key"].to_numpy(zero_copy_only=False), batch["record"]) for batch in batches if batch.num_rows],
        features,
    )


class SnapshotStore:
    """Snapshots of the tables that routes documents name, newest last; opened in a thread as they come."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._open: dict[str, dict[str, Snapshot]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failures: dict[str, str] = {}

    def get(self, model: str, table: FeatureTable) -> Snapshot | None:
        return self._open.get(model, {}).get(table.id)

    def want(self, model: str, table: FeatureTable | None) -> None:
        """Opens the table's snapshot in the background, unless it is open, there is none, or it is not wanted."""
        if table is None or table.snapshot_url is None or not self._max_bytes or self.get(model, table):
            return
        task = asyncio.create_task(self._bring(model, table, table.snapshot_url), name=f"snapshot {table.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Returns once every snapshot that is wanted is open, or has failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _bring(self, model: str, table: FeatureTable, url: str) -> None:
        try:
            snapshot = await asyncio.to_thread(self._load, model, table, url)
        except Exception as error:  # noqa: BLE001 - any store's error: without a snapshot we serve on, and say so
            self.failures[model] = f"snapshot {url}: {error}"
            log.warning("no feature snapshot", extra={"model": model, "url": url, "error": str(error)})
            return
        self.failures.pop(model, None)
        kept = self._open.setdefault(model, {})
        kept[table.id] = snapshot
        while len(kept) > _KEPT_TABLES:
            del kept[next(iter(kept))]

    def _load(self, model: str, table: FeatureTable, url: str) -> Snapshot:
        fs, path = fsspec.core.url_to_fs(url)
        size = int(fs.size(path) or 0)
        if size > self._max_bytes:
            raise ValueError(f"{size} bytes are over the limit of {self._max_bytes}")
        if "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
            return open_snapshot(Path(path), table.features)
        return open_snapshot(self._copy(fs, path, model, table.id), table.features)

    def _copy(self, fs: Any, path: str, model: str, table_id: str) -> Path:
        """One worker copies, the others wait and find it."""
        folder = self._folder / model
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{table_id}.arrow"
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                staged = folder / f".{table_id}.part"
                with fs.open(path, "rb") as source, staged.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                staged.replace(target)
                for old in sorted(folder.glob("*.arrow"))[:-_KEPT_TABLES]:
                    old.unlink(missing_ok=True)
        return target
