"""A small disk, to be filled."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A file system of its own; `fill` leaves so many bytes, `free` gives all back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    @property
    def left(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, left: int) -> None:
        with self._ballast.open("wb") as file:
            while (missing := self.left - left) > 0:
                file.write(bytes(min(missing, 1 << 20)))
                file.flush()

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Disk]:
    """Mounted at `folder`; skips the test where this user may not mount."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        # Lazily: a process that is just ending may still have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
