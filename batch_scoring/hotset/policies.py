"""Cache policies that a choice is compared with, each at a fixed number of slots of one entity.

`ask(key)` says whether the key was held, and takes it in where it was not. What Redis itself does is in
`redis_eviction.py`.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
_NEVER = 2**62


class Policy(Protocol):
    """A cache of at most `slots` keys."""

    def ask(self, key: int) -> bool:
        """True where the key is held; where it is not, it may be taken in."""

    def drop(self, key: int) -> None:
        """Forgets a held key, as when its result is too old to serve."""


class Lru:
    """Least recently used goes first."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: OrderedDict[int, None] = OrderedDict()

    def ask(self, key: int) -> bool:
        held = self._held
        if key in held:
            held.move_to_end(key)
            return True
        if self._slots:
            if len(held) == self._slots:
                held.popitem(last=False)
            held[key] = None
        return False

    def drop(self, key: int) -> None:
        self._held.pop(key, None)


class Lfu:
    """Least often asked since it came in goes first; of equals, the one longest at its count."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._count: dict[int, int] = {}
        self._by_count: dict[int, OrderedDict[int, None]] = {}
        self._least = 1

    def ask(self, key: int) -> bool:
        count = self._count.get(key)
        if count is not None:
            self._leave(key, count)
            if self._least == count and count not in self._by_count:
                self._least = count + 1
            self._enter(key, count + 1)
            return True
        if self._slots:
            if len(self._count) == self._slots:
                self._evict()
            self._enter(key, 1)
            self._least = 1
        return False

    def drop(self, key: int) -> None:
        count = self._count.pop(key, None)
        if count is not None:
            self._leave(key, count)

    def _enter(self, key: int, count: int) -> None:
        self._count[key] = count
        self._by_count.setdefault(count, OrderedDict())[key] = None

    def _leave(self, key: int, count: int) -> None:
        equals = self._by_count[count]
        del equals[key]
        if not equals:
            del self._by_count[count]

    def _evict(self) -> None:
        if self._least not in self._by_count:  # after a drop
            self._least = min(self._by_count)
        equals = self._by_count[self._least]
        key, _ = equals.popitem(last=False)
        if not equals:
            del self._by_count[self._least]
        del self._count[key]


class Sieve:
    """One queue in order of arrival; a hand walks from old to new, sparing once what was asked for since.

    Source: Zhang et al., SIEVE is Simpler than LRU (NSDI 2024).
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._asked: dict[int, bool] = {}
        self._newer: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._newest = self._oldest = self._hand = -1

    def ask(self, key: int) -> bool:
        if key in self._asked:
            self._asked[key] = True
            return True
        if self._slots:
            if len(self._asked) == self._slots:
                self._evict()
            self._append(key)
        return False

    def drop(self, key: int) -> None:
        if key not in self._asked:
            return
        newer, older = self._newer.pop(key), self._older.pop(key)
        del self._asked[key]
        if self._hand == key:
            self._hand = newer
        if newer < 0:
            self._newest = older
        else:
            self._older[newer] = older
        if older < 0:
            self._oldest = newer
        else:
            self._newer[older] = newer

    def _append(self, key: int) -> None:
        self._asked[key] = False
        self._newer[key], self._older[key] = -1, self._newest
        if self._newest < 0:
            self._oldest = key
        else:
            self._newer[self._newest] = key
        self._newest = key

    def _evict(self) -> None:
        hand = self._hand if self._hand >= 0 else self._oldest
        while self._asked[hand]:
            self._asked[hand] = False
            hand = self._newer[hand]
            if hand < 0:
                hand = self._oldest
        self._hand = hand
        self.drop(hand)


class WTinyLfu:
    """A small LRU window in front of a segmented LRU, which a key enters only if asked for more than what leaves.

    As Caffeine's with its fixed shares: window 1 %, of the rest 80 % protected; counts up to 15, halved after ten
    requests a slot. Counts are exact where Caffeine keeps a sketch, so this is what the sketch approaches.
    Source: Einziger, Friedman, Manes, TinyLFU (ACM ToS 2017).
    """

    _WINDOW, _PROTECTED, _MOST, _SAMPLE = 0.01, 0.8, 15, 10

    def __init__(self, slots: int) -> None:
        self._window_slots = min(slots, max(1, round(self._WINDOW * slots)))
        self._main_slots = slots - self._window_slots
        self._protected_slots = int(self._PROTECTED * self._main_slots)
        self._window: OrderedDict[int, None] = OrderedDict()
        self._probation: OrderedDict[int, None] = OrderedDict()
        self._protected: OrderedDict[int, None] = OrderedDict()
        self._count: dict[int, int] = {}
        self._until_halved = self._sample = self._SAMPLE * max(1, slots)

    def ask(self, key: int) -> bool:
        self._note(key)
        if key in self._window:
            self._window.move_to_end(key)
            return True
        if key in self._protected:
            self._protected.move_to_end(key)
            return True
        if key in self._probation:
            self._promote(key)
            return True
        if self._window_slots:
            self._window[key] = None
            if len(self._window) > self._window_slots:
                self._admit(self._window.popitem(last=False)[0])
        return False

    def drop(self, key: int) -> None:
        for part in (self._window, self._probation, self._protected):
            part.pop(key, None)

    def _note(self, key: int) -> None:
        count = self._count.get(key, 0)
        if count < self._MOST:
            self._count[key] = count + 1
        self._until_halved -= 1
        if self._until_halved == 0:
            self._until_halved = self._sample // 2
            self._count = {key: count // 2 for key, count in self._count.items() if count > 1}

    def _promote(self, key: int) -> None:
        if not self._protected_slots:
            self._probation.move_to_end(key)
            return
        del self._probation[key]
        self._protected[key] = None
        if len(self._protected) > self._protected_slots:
            self._probation[self._protected.popitem(last=False)[0]] = None

    def _admit(self, key: int) -> None:
        if len(self._probation) + len(self._protected) < self._main_slots:
            self._probation[key] = None
        elif self._main_slots:
            part = self._probation or self._protected
            victim = next(iter(part))
            if self._count.get(key, 0) > self._count.get(victim, 0):
                del part[victim]
                self._probation[key] = None


def belady_hits(codes: Codes, slots: int) -> npt.NDArray[np.bool_]:
    """(n,) which requests are hits of the best cache there can be, which knows the future and may pass a key by.

    Source: Belady, A study of replacement algorithms for a virtual-storage computer (1966).
    """
    later = next_request(codes).tolist()
    held: dict[int, int] = {}
    farthest: list[tuple[int, int]] = []
    hits = np.zeros(len(codes), dtype=np.bool_)
    for at, key in enumerate(codes.tolist()):
        hits[at] = held.pop(key, None) is not None
        if slots and later[at] < _NEVER:
            held[key] = later[at]
            heappush(farthest, (-later[at], key))
            if len(held) > slots:
                _drop_farthest(held, farthest)
    return hits


def _drop_farthest(held: dict[int, int], farthest: list[tuple[int, int]]) -> None:
    while True:
        due, key = heappop(farthest)
        if held.get(key) == -due:
            del held[key]
            return


def next_request(codes: Codes) -> npt.NDArray[np.int64]:
    """(n,) at what place the same key is asked for again, 2^62 where it is not."""
    order = np.argsort(codes, kind="stable")
    later = np.full(len(codes), _NEVER, dtype=np.int64)
    is_same = codes[order[1:]] == codes[order[:-1]]
    later[order[:-1][is_same]] = order[1:][is_same]
    return later
