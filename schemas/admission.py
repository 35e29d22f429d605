"""Which live results are worth being written back: those of keys that are missed again and again.

A key that is asked for once takes the place of one that is asked for often. The one rule for the API, which writes
back, and for the simulation that fits `after`. Source: Einziger, Friedman, Manes, TinyLFU (ACM ToS 2017), of which
this is the door alone: what is kept is chosen by Redis's own eviction.
"""

from collections.abc import Hashable


class Admission:
    """Counts misses by key, exactly, and halves the counts whenever half of what it remembers is new.

    Args:
        after: a key is admitted at so many remembered misses; 1 admits every key, and remembers none.
        remembered: misses, at most. The keys are as many at most, and their memory some 100 bytes each.
    """

    def __init__(self, after: int, remembered: int) -> None:
        self.after = after
        self._remembered = self._until_halved = max(1, remembered)
        self._misses: dict[Hashable, int] = {}

    def admits(self, key: Hashable) -> bool:
        """Notes a miss of the key; whether its result is to be written back."""
        if self.after <= 1:
            return True
        misses = self._misses.get(key, 0) + 1
        self._misses[key] = misses
        self._until_halved -= 1
        if self._until_halved == 0:
            self._until_halved = max(1, self._remembered // 2)
            self._misses = {one: count // 2 for one, count in self._misses.items() if count > 1}
        return misses >= self.after
