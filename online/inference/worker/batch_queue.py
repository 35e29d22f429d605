"""The bounded queue of rows that wait for the device. No clock, no threads: the batcher holds its lock."""

from collections.abc import Iterator
from itertools import chain

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.jobs import Job, Part
from online.inference.worker.stage import Allocate, Batch, Stage
from schemas.capacity import BatchTime

PRIORITIES = 2


class BatchQueue:
    """Counts rows, not requests, and only those that no batch has taken yet."""

    def __init__(self, policy: BatchPolicy, max_queued_rows: int, allocate: Allocate) -> None:
        self._policy = policy
        self._max_queued_rows = max_queued_rows
        # Dictionaries for their order and for removal from the middle.
        self._waiting: tuple[dict[Part, None], ...] = tuple({} for _ in range(PRIORITIES))
        self._stage = Stage(policy.max_rows, allocate)
        self._lane_rows = [0] * PRIORITIES

    @property
    def rows(self) -> int:
        return sum(self._lane_rows)

    def rows_before(self, priority: int) -> int:
        """Rows that are served before a request of this priority that comes now."""
        return sum(self._lane_rows[: priority + 1])

    def has_room(self, job: Job) -> bool:
        """A request larger than the queue is let into an empty one."""
        return not self.rows or self.rows + job.rows <= self._max_queued_rows

    def put(self, job: Job) -> None:
        self._lane_rows[job.priority] += job.rows
        lane = self._waiting[job.priority]
        self._stage.catch_up(self._in_order())
        for part in job.parts:
            lane[part] = None
            self._stage.add(part)

    def withdraw(self, job: Job) -> bool:
        """Removes what no batch has taken yet. True where that was all of it: it was certainly not executed."""
        lane = self._waiting[job.priority]
        left = [part for part in job.parts if part in lane]
        for part in left:
            del lane[part]
            self._lane_rows[job.priority] -= part.rows
        return len(left) == len(job.parts)

    def wait_ns(self, now_ns: int, free_since_ns: int) -> int | None:
        """How long a free device still waits for company; None: for the first row."""
        if not self.rows:
            return None
        return self._policy.wait_ns(now_ns, self.rows, self._first_arrived_ns(), free_since_ns)

    def age_ns(self, now_ns: int) -> int:
        """How long the first of the rows that wait has waited; 0 where none does."""
        return now_ns - self._first_arrived_ns() if self.rows else 0

    def take(self, time: BatchTime | None = None) -> Batch:
        """The next batch, of at least one part."""
        parts = self._policy.choose(self._in_order(), time)
        for part in parts:
            del self._waiting[part.job.priority][part]
            self._lane_rows[part.job.priority] -= part.rows
        return self._stage.take(parts)

    def give_back(self, batch: Batch) -> None:
        """Its arrays may be filled again."""
        self._stage.give_back(batch)

    def stack_ahead(self) -> None:
        """Stacks the next batch as far as it is known."""
        self._stage.catch_up(self._in_order())

    def _first_arrived_ns(self) -> int:
        return min(next(iter(lane)).job.arrived_ns for lane in self._waiting if lane)

    def _in_order(self) -> Iterator[Part]:
        return chain(*self._waiting)
