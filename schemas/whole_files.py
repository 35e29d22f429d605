"""Small local files, replaced whole: a reader or a restart never sees half of one."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, is_durable: bool = False) -> None:
    """Also makes the folder. `is_durable`: it outlives a loss of power that comes after. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    with staged.open("wb") as file:
        file.write(content)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    staged.replace(path)


def staged_of(path: Path) -> list[Path]:
    """What writers of this file that were killed have left beside it; nobody may be writing it now."""
    return [*path.parent.glob(f".{path.name}.*")]


def read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
