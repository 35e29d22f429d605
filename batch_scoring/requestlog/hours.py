"""Where the hours of a local request log lie, what is in them, and what is put aside for them."""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from batch_scoring.files import file_system
from schemas.names import COMPACTED_FILE, REQUESTS, compacted_names, is_name

# Beside the log, not below it: DuckDB's `**` also finds what begins with an underscore.
WORKING = "requests-compacting"
_PARTITION = re.compile(r"date=([0-9]{4}-[0-9]{2}-[0-9]{2})/hour=([0-9]{2})\Z")


class NotPossible(ValueError):
    """What was asked cannot be done with this data root; the message says why."""


@dataclass(frozen=True, slots=True)
class Hour:
    """One partition. `live` is what readers list; `staged` and `journal` are the compaction's own."""

    root: Path
    name: str  # model=…/date=…/hour=…
    begin: datetime

    @property
    def live(self) -> Path:
        return self.root / REQUESTS / self.name

    @property
    def staged(self) -> Path:
        return self.root / WORKING / self.name

    @property
    def journal(self) -> Path:
        return self.staged.with_name(f"{self.staged.name}.json")

    @property
    def end(self) -> datetime:
        return self.begin + timedelta(hours=1)


def local_root(data_url: str) -> Path:
    """Raises NotPossible where the data root is no folder of this machine."""
    filesystem, root = file_system(data_url)
    if not isinstance(filesystem, LocalFileSystem):
        raise NotPossible(
            f"{data_url} is no local folder: an object store cannot change many files for one in one step, and"
            " readers would see rows twice or not at all"
        )
    return Path(root)


def models_of(root: Path) -> list[str]:
    names = (path.name.removeprefix("model=") for path in (root / REQUESTS).glob("model=*"))
    return sorted(name for name in names if is_name(name))


def hours_of(root: Path, model: str) -> list[Hour]:
    """The model's hours, oldest first, with those that an interrupted run left staged."""
    found = {}
    for base in (REQUESTS, WORKING):
        for path in (root / base / f"model={model}").glob("date=*/hour=*"):
            match = _PARTITION.search(path.as_posix())
            if path.is_dir() and match and (begin := _begin(*match.groups())) is not None:
                name = path.relative_to(root / base).as_posix()
                found[name] = Hour(root, name, begin)
    return sorted(found.values(), key=lambda hour: hour.begin)


def _begin(date: str, hour: str) -> datetime | None:
    try:
        return datetime.strptime(f"{date} {hour}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    except ValueError:
        return None


def parquet_files(folder: Path) -> list[Path]:
    """Those that readers see, by name."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == ".parquet" and path.name[0] not in "._")


def compacted(folder: Path) -> tuple[str | None, frozenset[str]]:
    """The mark of the folder's last compaction, and the names of all files whose rows went into compacted ones."""
    try:
        raw = (folder / COMPACTED_FILE).read_bytes()
        return str(json.loads(raw)["id"]), compacted_names(raw)
    except FileNotFoundError:
        return None, frozenset()


@contextmanager
def locked(root: Path, model: str) -> Iterator[None]:
    """One compaction or retention of a model at a time. Raises NotPossible where there is another."""
    path = root / WORKING / f"model={model}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise NotPossible(f"the request log of {model} is being compacted or cleaned by another process") from None
    finally:
        os.close(descriptor)
