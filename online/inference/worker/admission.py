"""Whether a request can still make its deadline: what it would wait, predicted when it comes. Pure.

Refusing at once costs a caller nothing but the answer; letting it wait first costs it the time as well, and the
device a batch that nobody wants any more.
"""

from math import ceil, exp

from schemas.capacity import BatchTime

_RATE_MEMORY_S = 0.5
# Batches vary by a few per cent, and the answer has a way to go: who is let in on the brink waits in vain.
_SLACK = 1.1


class Admission:
    """Predicts from T(b), from what is queued, and from how much else is coming. The batcher holds its lock."""

    def __init__(self, max_rows: int, instances: int) -> None:
        self._max_rows, self._instances = max_rows, instances
        self._recent_rows, self._recent_at_ns = 0.0, 0

    def took(self, rows: int, now_ns: int) -> None:
        """Rows were let in: they tell how many more will come while one waits."""
        self._recent_rows = self._decayed(now_ns) + rows
        self._recent_at_ns = now_ns

    def answer_ms(self, time: BatchTime, rows: int, rows_before: int, free_in_ms: float, now_ns: int) -> float:
        """Until `rows` that come now would be answered.

        The batch they end in also takes what comes until it starts, so under load it counts as a full one.

        Args:
            rows_before: that wait, and are served first.
            free_in_ms: until the first device is free.
        """
        total = rows_before + rows
        full_batches = ceil(total / self._max_rows) - 1
        start_ms = free_in_ms + full_batches * time.batch_ms(self._max_rows) / self._instances
        coming = self._decayed(now_ns) / (1e3 * _RATE_MEMORY_S) * start_ms
        own_ms = time.batch_ms(min(self._max_rows, ceil(total - full_batches * self._max_rows + coming)))
        return (start_ms + own_ms) * _SLACK

    def _decayed(self, now_ns: int) -> float:
        return self._recent_rows * exp(-(now_ns - self._recent_at_ns) / (1e9 * _RATE_MEMORY_S))
