"""The bounded queue of rows that wait for the device. No clock, no threads: the batcher holds its lock."""

from collections.abc import Iterator
from itertools import chain

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.jobs import Job, Part
from online.inference.worker.stage import Stage
from schemas.wire import Tensor

PRIORITIES = 2


class BatchQueue:
    """Counts rows, not requests, and only those that no batch has taken yet."""

    def __init__(self, policy: BatchPolicy, max_queued_rows: int) -> None:
        self._policy = policy
        self._max_queued_rows = max_queued_rows
        # Dictionaries for their order and for removal from the middle.
        self._waiting: tuple[dict[Part, None], ...] = tuple({} for _ in range(PRIORITIES))
        self._stage = Stage(policy.max_rows)
        self.rows = 0

    def put(self, job: Job) -> bool:
        """False where there is no room for its rows. A request larger than the queue is let into an empty one."""
        if self.rows and self.rows + job.rows > self._max_queued_rows:
            return False
        self.rows += job.rows
        lane = self._waiting[job.priority]
        self._stage.catch_up(self._in_order())
        for part in job.parts:
            lane[part] = None
            self._stage.add(part)
        return True

    def withdraw(self, job: Job) -> None:
        """Removes what no batch has taken yet."""
        lane = self._waiting[job.priority]
        for part in job.parts:
            if part in lane:
                del lane[part]
                self.rows -= part.rows

    def wait_ns(self, now_ns: int, free_since_ns: int) -> int | None:
        """How long a free device still waits for company; None: for the first row."""
        if not self.rows:
            return None
        first = min(next(iter(lane)).job.arrived_ns for lane in self._waiting if lane)
        return self._policy.wait_ns(now_ns, self.rows, first, free_since_ns)

    def take(self) -> tuple[list[Part], list[Tensor]]:
        """The next batch's parts, at least one, and their stacked rows."""
        parts = self._policy.choose(self._in_order())
        for part in parts:
            del self._waiting[part.job.priority][part]
            self.rows -= part.rows
        return parts, self._stage.take(parts)

    def stack_ahead(self) -> None:
        """Stacks the next batch as far as it is known."""
        self._stage.catch_up(self._in_order())

    def _in_order(self) -> Iterator[Part]:
        return chain(*self._waiting)
