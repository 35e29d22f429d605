"""Pauses between attempts to connect: they grow, and differ, so that workers do not come back all at once."""

import random


class Pauses:
    """Jittered, doubling from `first_s` to `longest_s`."""

    def __init__(self, first_s: float = 0.05, longest_s: float = 2.0) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def reset(self) -> None:
        self._next_s = self._first_s

    def next_s(self) -> float:
        pause_s = self._next_s * random.uniform(0.5, 1.0)
        self._next_s = min(self._longest_s, self._next_s * 2)
        return pause_s
