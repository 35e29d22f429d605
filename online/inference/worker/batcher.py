"""Dynamic batcher: requests in, batches to the model, outcomes out. Imports no torch: the model is a callable.

Owns the queue and the loop of the device thread, which takes its next batch itself the moment it is free: nothing
that could be done while the device was busy happens between two batches. When to take and how much is decided in
`batch_policy.py`. Outcomes are handed over in the device thread; answering them is the wire's work.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batch_queue import BatchQueue
from online.inference.worker.jobs import BatchTimes, Job, Part
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

RunBatch = Callable[[list[Tensor]], Float32Array]
_MAX_SHOWN_ERROR = 300


class DeviceLost(Exception):
    """The device or its context is beyond use: raised by a `RunBatch`, it ends the device thread."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: (rows, K) outputs, or the reason why there are none."""

    parts: list[Part]
    outputs: Float32Array | None
    times: BatchTimes
    error: str = ""


@dataclass(slots=True)
class BatchCounts:
    """Written by the device thread alone."""

    batches: int = 0
    rows: int = 0
    failed_batches: int = 0
    busy_ns: int = 0
    queue_ns: int = 0


class Batcher:
    """`submit` and `withdraw` are for one thread, `run` is the body of another.

    Args:
        run_batch: stacked tensors of n rows to (n, `outputs`) float32; may raise.
        deliver: takes each outcome, in the device thread; must not block.
    """

    def __init__(
        self,
        run_batch: RunBatch,
        outputs: int,
        policy: BatchPolicy,
        max_queued_rows: int,
        deliver: Callable[[Outcome], None],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._run_batch, self._outputs, self._deliver, self._now_ns = run_batch, outputs, deliver, now_ns
        self._queue = BatchQueue(policy, max_queued_rows)
        self._changed = threading.Condition(threading.Lock())
        self._is_idle = False
        self._stopping = False
        self._began_ns = 0
        self.counts = BatchCounts()
        self.executing_rows = 0

    @property
    def queued_rows(self) -> int:
        return self._queue.rows

    @property
    def executing_ns(self) -> int:
        """For how long the batch on the device has been there; 0 when the device is free."""
        return self._now_ns() - self._began_ns if self.executing_rows else 0

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Queues what arrived together, so that it can share a batch; returns those the queue has no room for."""
        with self._changed:
            refused = [job for job in jobs if not self._queue.put(job)]
            if self._is_idle and len(refused) < len(jobs):
                self._changed.notify()
        return refused

    def withdraw(self, job: Job) -> None:
        """Rows that no batch has taken will not be executed."""
        with self._changed:
            self._queue.withdraw(job)

    def stack_ahead(self) -> None:
        """Stacks the next batch; to be called while the device is busy."""
        with self._changed:
            self._queue.stack_ahead()

    def stop(self) -> None:
        """`run` returns once the queue is empty."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def run(self) -> None:
        """Body of the device thread. Raises DeviceLost; whoever waits is then answered by the caller."""
        while (taken := self._next()) is not None:
            parts, tensors, began_ns = taken
            self._execute(parts, tensors, began_ns)
            self.executing_rows = 0

    def _next(self) -> tuple[list[Part], list[Tensor], int] | None:
        with self._changed:
            free_since_ns = self._now_ns()
            while (wait_ns := self._queue.wait_ns(self._now_ns(), free_since_ns)) != 0:
                if self._stopping:
                    if wait_ns is None:
                        return None
                    break
                self._is_idle = True
                self._changed.wait(None if wait_ns is None else wait_ns / 1e9)
                self._is_idle = False
            began_ns = self._now_ns()
            parts, tensors = self._queue.take()
            self._began_ns, self.executing_rows = began_ns, len(tensors[0])
        return parts, tensors, began_ns

    def _execute(self, parts: list[Part], tensors: list[Tensor], began_ns: int) -> None:
        """A batch that fails is tried again request by request, so that a bad row fails alone."""
        outcome = self._attempt(parts, tensors, began_ns)
        if outcome.outputs is None and len(parts) > 1:
            log.warning(
                "batch of %d rows failed, trying its requests one by one: %s", len(tensors[0]), outcome.error
            )
            for part in parts:
                if part.job.is_open:
                    # Copies: a model may write into its input, and these are the request's own rows.
                    own = [tensor.copy() for tensor in part.tensors()]
                    self._deliver(self._attempt([part], own, self._now_ns()))
            return
        self._deliver(outcome)

    def _attempt(self, parts: list[Part], tensors: list[Tensor], began_ns: int) -> Outcome:
        started_ns = self._now_ns()
        rows, error, outputs = len(tensors[0]), "", None
        try:
            outputs = self._checked(self._run_batch(tensors), rows)
        except DeviceLost:
            raise
        except Exception as failure:  # noqa: BLE001 - whatever a model raises is an outcome of its batch
            error = f"{type(failure).__name__}: {failure}"[:_MAX_SHOWN_ERROR]
        ended_ns = self._now_ns()
        self._count(parts, rows, began_ns, ended_ns, outputs is None)
        return Outcome(
            parts, outputs, BatchTimes(rows, began_ns, started_ns - began_ns, ended_ns - started_ns), error
        )

    def _checked(self, outputs: Float32Array, rows: int) -> Float32Array:
        """A copy: the model's answer may be a view of the stage. Raises ValueError on another shape."""
        if outputs.shape != (rows, self._outputs):
            raise ValueError(f"the model gave {outputs.shape} for {rows} rows of {self._outputs} outputs")
        return np.array(outputs, dtype=np.float32)

    def _count(self, parts: list[Part], rows: int, began_ns: int, ended_ns: int, failed: bool) -> None:
        counts = self.counts
        counts.batches += 1
        counts.rows += rows
        counts.failed_batches += failed
        counts.busy_ns += ended_ns - began_ns
        counts.queue_ns += sum((began_ns - part.job.arrived_ns) * part.rows for part in parts)
