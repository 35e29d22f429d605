"""What is asked of a tier under load: whole HTTP requests, and a run of them."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tests.bench.live.asking import Requests, request_bytes
from tests.bench.live.measure import Run, run_at
from tests.bench.live.stack import Stack


class Asking(Protocol):
    """Requests for one model."""

    def requests(self, stack: Stack, count: int) -> Sequence[bytes]: ...

    def run(self, stack: Stack, due_s: np.ndarray, most_per_s: float) -> Run:
        """`most_per_s` bounds the connections."""
        ...


class KnownAsking:
    """Requests whose answers are checked, each sent once."""

    def __init__(self) -> None:
        self._numbers = Requests()

    def requests(self, stack: Stack, count: int) -> Sequence[bytes]:
        return [request_bytes(stack.server, number, {}) for number in self._numbers.take(count)]

    def run(self, stack: Stack, due_s: np.ndarray, most_per_s: float) -> Run:
        return run_at(stack.server, self._numbers, due_s, most_per_s)
