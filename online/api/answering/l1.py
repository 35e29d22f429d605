"""Precomputed answers kept in the worker: packed values by version, generation and entity, bounded in bytes."""

import cachebox


class L1:
    """`max_bytes` counts keys and values as Python sizes them; 0 keeps nothing. Values are never changed."""

    def __init__(self, max_bytes: int) -> None:
        self._kept: cachebox.LRUCache[bytes, bytes] | None = (
            cachebox.LRUCache(0, maxmemory=max_bytes) if max_bytes else None
        )
        self.hits = 0

    def get(self, key: bytes) -> bytes | None:
        if self._kept is None:
            return None
        found = self._kept.get(key)
        self.hits += found is not None
        return found

    def put(self, key: bytes, packed: bytes) -> None:
        if self._kept is not None:
            self._kept.insert(key, packed)
