"""Two folders of one local file system change places, in one step that every reader sees as before or as after."""

import ctypes
import os
import sys
from pathlib import Path

# <linux/fs.h> and <fcntl.h>; RENAME_SWAP of macOS's <sys/stdio.h> has the same value.
_EXCHANGE = 2
_AT_FDCWD = -100


def exchange(first: Path, second: Path) -> None:
    """Raises OSError, also where the system or the file system has no such step; then nothing has changed."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(*names, _EXCHANGE)
        else:
            failed = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)
    except AttributeError:
        raise OSError("this system's C library cannot exchange two folders (renameat2)") from None
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot exchange: {os.strerror(number)}", str(first), None, str(second))


def make_durable(folder: Path) -> None:
    """A folder's names are on the disk, and not in memory only."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
