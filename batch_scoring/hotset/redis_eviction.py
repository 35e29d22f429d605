"""Redis's own eviction of keys that have a TTL, as `evict.c` and `object.c` of Redis 7 and Valkey do it.

When memory is full, a few keys are drawn, the idlest of them are kept in a pool from one eviction to the next, and
the idlest of the pool goes. Under `volatile-lru` a key is idle since it was last asked for, by a clock of whole
seconds. Under `volatile-lfu` it has a counter that begins at 5, grows with falling probability when asked for, and
loses one in each `lfu-decay-time` in which it is not; the lower, the idler. Redis admits every key; whoever writes
back may not (`schemas.admission`).
"""

from bisect import bisect_left
from random import Random
from typing import NamedTuple

from schemas.admission import Admission

LFU, LRU = "volatile-lfu", "volatile-lru"

# Misses that count for writing a result back, as TinyLFU has it.
REMEMBERED_A_SLOT = 10
_BEGIN = 5
_MOST = 255
_LOG_FACTOR = 10
_DRAWN = 5
_POOL = 16


class Eviction(NamedTuple):
    """What decides which results are held.

    Attributes:
        policy: Redis's `maxmemory-policy`.
        decay_minutes: its `lfu-decay-time`, which counts under `volatile-lfu` only.
        written_after: at which miss a result is written back, the API's `API_WRITE_BACK_AFTER`.
    """

    policy: str = LFU
    decay_minutes: float = 1.0
    written_after: int = 1

    @property
    def said(self) -> str:
        told = f"{self.policy}, lfu-decay-time {self.decay_minutes:g}" if self.policy == LFU else self.policy
        return f"{told}, written back after {self.written_after} misses" if self.written_after > 1 else told


class RedisCache:
    """A cache of at most `slots` keys, each of which is gone `ttl_s` after it was written.

    `ttl_s`: None is for ever. Redis drops what is too old soon, not only when it is asked for.
    """

    def __init__(self, slots: int, eviction: Eviction, ttl_s: float | None = None, seed: int = 1) -> None:
        self._slots, self._ttl_s = slots, ttl_s
        self._random = Random(seed).random
        self._keys: list[int] = []
        # Of each key: its place in `_keys`, its counter, and when that was brought up to date.
        self._held: dict[int, tuple[int, int, float]] = {}
        self._written_s: dict[int, float] = {}
        self._pool_idle: list[float] = []
        self._pool_key: list[int] = []
        self._admission = Admission(1, 1)
        self._eviction: Eviction | None = None
        self.set_eviction(eviction)

    def __len__(self) -> int:
        return len(self._keys)

    def ask(self, key: int, now_s: float) -> bool:
        """True where the key is held at `now_s`, which never falls; where it is not, it may be written."""
        if self._ttl_s is not None:
            self._expire(now_s, self._ttl_s)
        found = self._held.get(key)
        if found is not None:
            place, counter, noted_s = found
            counter = max(0, counter - int((now_s - noted_s) / self._decay_s))
            if counter < _MOST and self._random() * (max(0, counter - _BEGIN) * _LOG_FACTOR + 1) < 1:
                counter += 1
            self._held[key] = (place, counter, now_s)
            return True
        if self._slots > 0 and self._admission.admits(key):
            if len(self._keys) >= self._slots:
                self._evict(now_s)
            self._held[key] = (len(self._keys), _BEGIN, now_s)
            self._keys.append(key)
            if self._ttl_s is not None:
                self._written_s[key] = now_s
        return False

    def set_eviction(self, eviction: Eviction) -> None:
        """As `CONFIG SET`: what is held stays."""
        if eviction != self._eviction:
            self._pool_idle, self._pool_key = [], []
        if eviction.written_after != self._admission.after:
            self._admission = Admission(eviction.written_after, REMEMBERED_A_SLOT * self._slots)
        self._eviction = eviction
        self._decay_s = 60.0 * eviction.decay_minutes
        self._is_lru = eviction.policy == LRU

    def resize(self, slots: int, now_s: float) -> None:
        """Another number of slots from now on, as when a larger generation leaves less."""
        self._slots = slots
        while len(self._keys) > slots:
            self._evict(now_s)

    def drop(self, key: int) -> None:
        """Forgets a held key."""
        place = self._held.pop(key)[0]
        last = self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._held[last] = (place, *self._held[last][1:])
        self._written_s.pop(key, None)

    def _expire(self, now_s: float, ttl_s: float) -> None:
        while self._written_s:
            key = next(iter(self._written_s))  # written first, since a key that is held is not written again
            if now_s - self._written_s[key] < ttl_s:
                return
            self.drop(key)

    def _evict(self, now_s: float) -> None:
        while True:
            self._draw(now_s)
            while self._pool_key:
                self._pool_idle.pop()
                key = self._pool_key.pop()
                if key in self._held:
                    self.drop(key)
                    return

    def _draw(self, now_s: float) -> None:
        # Names of its own, since most of a simulation's time is spent here.
        idles, pool, size = self._pool_idle, self._pool_key, len(self._keys)
        keys, held, random, decay_s, is_lru = self._keys, self._held, self._random, self._decay_s, self._is_lru
        for _ in range(_DRAWN):
            key = keys[int(random() * size)]
            _, counter, noted_s = held[key]
            if is_lru:
                idle = now_s // 1 - noted_s // 1
            else:
                idle = _MOST - counter + int((now_s - noted_s) / decay_s)
                if idle > _MOST:
                    idle = _MOST
            if len(pool) == _POOL:
                if idle <= idles[0]:
                    continue
                del idles[0], pool[0]
            at = bisect_left(idles, idle)
            idles.insert(at, idle)
            pool.insert(at, key)
