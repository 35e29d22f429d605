"""Small files of the data root that are read again and again: each is parsed anew only when it has changed.

For local folders, where a look at a file says whether it has; an object store is asked each time.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

from fsspec.implementations.local import LocalFileSystem

MOST_FILES = 4096
# A folder that has just changed may change again without a newer time.
_SETTLED_NS = 1_000_000_000
Parsed = TypeVar("Parsed")


class KeptFiles:
    """Thread-safe. Holds what was parsed of at most `MOST_FILES` files, and as many folders' names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[object, tuple[object, object]] = OrderedDict()
        self._folders: OrderedDict[object, tuple[object, list[str]]] = OrderedDict()

    def list(self, filesystem: Any, folder: str) -> list[str]:
        """Paths in a folder, none where it is none. Raises OSError."""
        try:
            if not isinstance(filesystem, LocalFileSystem):
                filesystem.invalidate_cache(folder)
                return [path.rstrip("/") for path in filesystem.ls(folder, detail=False)]
            stat = os.stat(folder)
            mark = (stat.st_mtime_ns, stat.st_ino)
            kept: list[str] | None = self._get(self._folders, folder, mark)
            if kept is None:
                kept = [f"{folder}/{name}" for name in os.listdir(folder)]
                if time.time_ns() - stat.st_mtime_ns > _SETTLED_NS:
                    self._put(self._folders, folder, mark, kept)
            return kept
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, filesystem: Any, path: str, parse: Callable[[bytes], Parsed]) -> Parsed:
        """What `parse` makes of the file's bytes. Raises OSError, and what `parse` raises, which is not kept."""
        if not isinstance(filesystem, LocalFileSystem):
            return parse(filesystem.cat_file(path))
        stat = os.stat(path)
        mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        kept = self._get(self._files, (path, parse), mark)
        if kept is None:
            with open(path, "rb") as file:
                kept = parse(file.read())
            self._put(self._files, (path, parse), mark, kept)
        return cast(Parsed, kept)

    def _get(self, kept: OrderedDict[object, tuple[object, Any]], key: object, mark: object) -> Any:
        with self._lock:
            found = kept.get(key)
            if found is None or found[0] != mark:
                return None
            kept.move_to_end(key)
            return found[1]

    def _put(self, kept: OrderedDict[object, tuple[object, Any]], key: object, mark: object, value: Any) -> None:
        with self._lock:
            kept[key] = (mark, value)
            kept.move_to_end(key)
            if len(kept) > MOST_FILES:
                kept.popitem(last=False)
