"""What waits between threads, in deques."""

from collections import deque
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def left(waiting: deque[T]) -> list[T]:
    """All that is there; another thread may add, and take, meanwhile: each item leaves once."""
    found: list[T] = []
    with suppress(IndexError):
        for _ in range(len(waiting)):
            found.append(waiting.popleft())
    return found
