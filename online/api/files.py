"""Small files of the state folder, replaced whole: a reader or a restart never sees half of one."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_bytes(content)
    staged.replace(path)


def read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
