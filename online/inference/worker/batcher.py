"""Dynamic batcher: requests in, batches to the model, outcomes out. Imports no torch: the model is a callable.

Owns the queue and the loop of each device thread, which takes its next batch itself the moment it is free: nothing
that could be done while the device was busy happens between two batches. When to take and how much is decided in
`batch_policy.py`, who may wait in `admission.py`. Outcomes are handed over in the device thread; answering them is
the wire's work; what a batch that fails becomes is told in `execution.py`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from online.inference.worker.admission import Admission
from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batch_queue import BatchQueue
from online.inference.worker.execution import (
    Attempt,
    BatchCounts,
    Execution,
    Launched,
    Launcher,
    Outcome,
    RunBatch,
)
from online.inference.worker.jobs import Job
from online.inference.worker.stage import Allocate, Batch, plain_arrays
from online.inference.worker.time_model import OnlineBatchTime
from schemas.capacity import BatchTime

_PROBE_AFTER_NS = 1_000_000_000


class Refusal(NamedTuple):
    """A job not let in, `is_late` for its deadline's sake; after `retry_after_ms` one like it would be."""

    job: Job
    retry_after_ms: int
    is_late: bool


class _Flight(NamedTuple):
    """A batch that a device thread has taken; `launched`, and when, by a device that can be given one ahead."""

    batch: Batch
    launched: Launched | None = None
    launched_ns: int | None = None

    def started_ns(self, began_ns: int) -> int | None:
        """When a device that was this batch's from `began_ns` on could begin; None: not before it is run."""
        return None if self.launched_ns is None else max(began_ns, self.launched_ns)


@dataclass(slots=True, eq=False)
class _Instance:
    """One device thread. `rows` are on its device since `began_ns`, 0 while it is free; `ahead_rows` are next."""

    launcher: Launcher | None
    rows: int = 0
    began_ns: int = 0
    ahead_rows: int = 0

    def left_ms(self, time: BatchTime, now_ns: int) -> float:
        """Until it is free, as expected; a batch that takes longer takes nothing off the next."""
        if not self.rows:
            return 0.0
        running_ms = max(0.0, time.batch_ms(self.rows) - (now_ns - self.began_ns) / 1e6)
        return running_ms + (time.batch_ms(self.ahead_rows) if self.ahead_rows else 0.0)


class Batcher:
    """`submit` and `withdraw` are for one thread; `run` is the body of others, one for each instance of the model.

    Args:
        outputs: K, the columns of the model's output.
        time_of_batch: T(b) as measured before serving.
        deliver: takes each outcome, in the device thread; must not block.
        instances: how many threads will call `run`.
        allocate: memory for stacked rows.
        now_ns, condition: the clock, and what device threads wait on; a simulation brings its own.
    """

    def __init__(
        self,
        outputs: int,
        policy: BatchPolicy,
        max_queued_rows: int,
        time_of_batch: BatchTime,
        deliver: Callable[[Outcome], None],
        instances: int = 1,
        allocate: Allocate = plain_arrays,
        now_ns: Callable[[], int] = time.monotonic_ns,
        condition: Callable[[], threading.Condition] = threading.Condition,
    ) -> None:
        self._now_ns = now_ns
        self._execution = Execution(outputs, deliver, self._count, now_ns)
        self._queue = BatchQueue(policy, max_queued_rows, allocate)
        self._admission = Admission(policy.max_rows, instances)
        self._policy, self._max_rows = policy, policy.max_rows
        self._changed = condition()
        self._instances: list[_Instance] = []
        self._idle = 0
        self._stopping = False
        self._counted_at_ns = 0
        self.time = OnlineBatchTime(time_of_batch, policy.max_rows)
        self.counts = BatchCounts()

    @property
    def queued_rows(self) -> int:
        return self._queue.rows

    @property
    def queue_age_ns(self) -> int:
        """How long the first of the rows that wait has waited."""
        with self._changed:
            return self._queue.age_ns(self._now_ns())

    @property
    def executing_rows(self) -> int:
        return sum(instance.rows + instance.ahead_rows for instance in self._instances)

    @property
    def executing_ns(self) -> int:
        """For how long the oldest batch on a device has been there; 0 when all are free."""
        began = [instance.began_ns for instance in self._instances if instance.rows]
        return self._now_ns() - min(began) if began else 0

    def submit(self, jobs: Sequence[Job]) -> list[Refusal]:
        """Queues what arrived together, so that it can share a batch; returns those that are not let in."""
        refused = []
        with self._changed:
            now_ns = self._now_ns()
            for job in jobs:
                if (refusal := self._refusal(job, now_ns)) is not None:
                    refused.append(refusal)
                    continue
                self._queue.put(job)
                self._admission.took(job.rows, now_ns)
            if self._idle and len(refused) < len(jobs):
                self._changed.notify()
        return refused

    def withdraw(self, job: Job) -> bool:
        """Rows that no batch has taken will not be executed. True where that is all of them."""
        with self._changed:
            return self._queue.withdraw(job)

    def stack_ahead(self) -> None:
        """Stacks the next batch; to be called while the device is busy."""
        with self._changed:
            self._queue.stack_ahead()

    def stop(self) -> None:
        """Each `run` returns once the queue is empty."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self, run_batch: RunBatch) -> None:
        """Body of a device thread. Raises DeviceLost; whoever waits is then answered by the caller.

        Args:
            run_batch: stacked tensors of n rows to (n, K) float32; may raise.
        """
        instance = _Instance(run_batch if isinstance(run_batch, Launcher) else None)
        self._instances.append(instance)
        flight = self._next(instance)
        while flight is not None:
            ahead = self._next_ahead(instance, flight)
            began_ns = instance.began_ns
            started_ns = flight.started_ns(began_ns)
            ended_ns = self._execution.settle(run_batch, flight.batch, began_ns, flight.launched, started_ns)
            with self._changed:
                self._queue.give_back(flight.batch)
                instance.rows, instance.began_ns, instance.ahead_rows = instance.ahead_rows, ended_ns, 0
            flight = ahead or self._next(instance)

    def _refusal(self, job: Job, now_ns: int) -> Refusal | None:
        if not self._queue.has_room(job):
            rows = self._queue.rows
            fit = self.time.fit
            wait_ms = (ceil(rows / self._max_rows) * fit.tau0_ms + rows * fit.alpha_ms) / max(
                1, len(self._instances)
            )
            return Refusal(job, max(1, ceil(wait_ms)), False)
        if not job.deadline_ns or self._needs_a_probe(now_ns):
            return None
        left_ms = (job.deadline_ns - now_ns) / 1e6
        needed_ms = self._admission.answer_ms(
            self.time.fit, job.rows, self._queue.rows_before(job.priority), self._free_in_ms(now_ns), now_ns
        )
        return Refusal(job, max(1, ceil(needed_ms - left_ms)), True) if needed_ms > left_ms else None

    def _needs_a_probe(self, now_ns: int) -> bool:
        """Whether a free device has executed nothing for long: T(b) would never be found to be shorter again."""
        return not self._queue.rows and not self.executing_rows and now_ns - self._counted_at_ns > _PROBE_AFTER_NS

    def _free_in_ms(self, now_ns: int) -> float:
        """Until the first device is free, by its batch's expected time."""
        fit = self.time.fit
        return min((instance.left_ms(fit, now_ns) for instance in self._instances), default=0.0)

    def _next(self, instance: _Instance) -> _Flight | None:
        with self._changed:
            free_since_ns = self._now_ns()
            while (wait_ns := self._queue.wait_ns(self._now_ns(), free_since_ns)) != 0:
                if self._stopping:
                    if wait_ns is None:
                        return None
                    break
                self._idle += 1
                self._changed.wait(None if wait_ns is None else wait_ns / 1e9)
                self._idle -= 1
            instance.began_ns = self._now_ns()
            batch = self._queue.take(self.time.fit)
            instance.rows = batch.rows
            if self._queue.rows and self._idle:  # what arrived together may be more than one batch
                self._changed.notify()
        return self._launch(instance.launcher, batch)

    def _next_ahead(self, instance: _Instance, flight: _Flight) -> _Flight | None:
        """Waits until the batch is nearly done. The next, behind it on the device, if a whole one waits."""
        if flight.launched is None:
            return None
        batch_ms = self.time.fit.batch_ms(flight.batch.rows)
        nearly_done_ns = instance.began_ns + round(1e6 * batch_ms) - self._policy.ahead_ns(batch_ms)
        if flight.launched.is_back_by(nearly_done_ns):
            return None
        with self._changed:
            if self._queue.rows < self._max_rows:
                return None
            batch = self._queue.take(self.time.fit)
            instance.ahead_rows = batch.rows
        return self._launch(instance.launcher, batch)

    def _count(self, attempt: Attempt) -> None:
        with self._changed:
            self.counts.add(attempt)
            self._counted_at_ns = self._now_ns()
            if not attempt.is_failed and not attempt.is_halved:
                self.time.observe(attempt.rows, attempt.busy_ns / 1e6)

    def _launch(self, launcher: Launcher | None, batch: Batch) -> _Flight:
        """Raises DeviceLost."""
        if launcher is None:
            return _Flight(batch)
        launched = launcher.launch(batch.tensors)
        return _Flight(batch, launched, self._now_ns())
