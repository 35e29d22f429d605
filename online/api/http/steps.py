"""What is ready in one turn of the event loop goes through its steps together: each step for all, then the next.

What a step runs on then stays in the processor's cache, which the kernel's part of each answer's write, and what
other steps run on, would push out.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Steps(Generic[T]):
    """
    Args:
        steps: say whether an item goes on to the next.
        last: gets all that went through them, at once.
        failed: gets an item at which a step failed, which costs the others nothing; does not raise.
    """

    def __init__(
        self,
        *steps: Callable[[T], bool],
        failed: Callable[[T, Exception], None],
        last: Callable[[Sequence[T]], None] | None = None,
    ) -> None:
        self._steps, self._failed, self._last = steps, failed, last
        self._loop = asyncio.get_running_loop()
        self._ready: list[T] = []

    def add(self, item: T) -> None:
        """The item begins when this turn ends."""
        if not self._ready:
            self._loop.call_soon(self._run)
        self._ready.append(item)

    def _run(self) -> None:
        items, self._ready = self._ready, []
        for step in self._steps:
            left = []
            for item in items:
                try:
                    if step(item):
                        left.append(item)
                except Exception as error:  # noqa: BLE001 - handed on
                    self._failed(item, error)
            items = left
        if items and self._last is not None:
            try:
                self._last(items)
            except Exception as error:  # noqa: BLE001 - handed on
                for item in items:
                    self._failed(item, error)
