"""One batch through the model, and what is done when that fails. Runs in a device thread; imports no torch.

A batch that fails is tried again in halves, down to single requests, so that a bad one fails alone. One that does
not fit into memory is halved by rows and tried once more.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from online.inference.report import BUSY_BOUNDS_S, ROWS_BOUNDS, bucket_name
from online.inference.worker.jobs import BatchTimes, Part
from online.inference.worker.stage import Batch
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

RunBatch = Callable[[list[Tensor]], Float32Array]
_MAX_SHOWN_ERROR = 300


class DeviceLost(Exception):
    """The device or its context is beyond use: raised by a `RunBatch`, it ends the device thread."""


class OutOfMemory(Exception):
    """The batch did not fit beside what is on the device; raised by a `RunBatch` that has freed what it could."""


class Launched(Protocol):
    """A batch on its way through a device."""

    def is_back_by(self, at_ns: int) -> bool:
        """Waits until then at most, by the monotonic clock, for the outputs."""
        ...

    def __call__(self) -> Float32Array:
        """Waits for the outputs; once. Raises what a `RunBatch` raises."""
        ...


@runtime_checkable
class Launcher(Protocol):
    """A `RunBatch` whose device can be given the next batch while it works, and does them in that order."""

    def __call__(self, tensors: list[Tensor], /) -> Float32Array: ...

    def launch(self, tensors: list[Tensor], /) -> Launched:
        """Has read the tensors when it returns. Raises DeviceLost."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a batch: (rows, K) outputs, or the reason why there are none."""

    parts: list[Part]
    outputs: Float32Array | None
    times: BatchTimes
    error: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a batch, for the counts. `is_halved`: it did not fit into memory at first."""

    rows: int
    busy_ns: int
    queue_ns: int
    is_failed: bool
    is_halved: bool


@dataclass(slots=True)
class BatchCounts:
    """Totals since the worker's start."""

    batches: int = 0
    rows: int = 0
    failed_batches: int = 0
    out_of_memory: int = 0
    busy_ns: int = 0
    queue_ns: int = 0
    rows_buckets: list[int] = field(default_factory=lambda: [0] * (len(ROWS_BOUNDS) + 1))
    busy_buckets: list[int] = field(default_factory=lambda: [0] * (len(BUSY_BOUNDS_S) + 1))

    def totals(self) -> dict[str, int]:
        """As a report has them."""
        buckets = {"rows": self.rows_buckets, "busy": self.busy_buckets}
        plain = {name: value for name, value in asdict(self).items() if isinstance(value, int)}
        return plain | {
            bucket_name(histogram, place): count
            for histogram, counts in buckets.items()
            for place, count in enumerate(counts)
            if count
        }

    def add(self, attempt: Attempt) -> None:
        self.batches += 1
        self.rows += attempt.rows
        self.failed_batches += attempt.is_failed
        self.out_of_memory += attempt.is_halved
        self.busy_ns += attempt.busy_ns
        self.queue_ns += attempt.queue_ns
        self.rows_buckets[bisect_left(ROWS_BOUNDS, attempt.rows)] += 1
        self.busy_buckets[bisect_left(BUSY_BOUNDS_S, attempt.busy_ns / 1e9)] += 1


class Execution:
    """Shared by the device threads of a version; holds no state of its own.

    Args:
        outputs: K, the columns of the model's output.
        deliver: takes each outcome; every part of a batch is in just one.
        count: takes each attempt.
    """

    def __init__(
        self,
        outputs: int,
        deliver: Callable[[Outcome], None],
        count: Callable[[Attempt], None],
        now_ns: Callable[[], int],
    ) -> None:
        self._outputs, self._deliver, self._count, self._now_ns = outputs, deliver, count, now_ns

    def settle(
        self,
        run_batch: RunBatch,
        batch: Batch,
        began_ns: int,
        launched: Launched | None = None,
        started_ns: int | None = None,
    ) -> int:
        """Delivers outcomes for all parts of the batch that anyone still waits for. Raises DeviceLost.

        Args:
            launched: the batch, where it is on its way already; the device has worked on it since `started_ns`.

        Returns:
            When the device was done with it.
        """
        return self._settle(run_batch, batch.parts, batch.tensors, began_ns, launched, started_ns)

    def _settle(
        self,
        run_batch: RunBatch,
        parts: list[Part],
        tensors: list[Tensor],
        began_ns: int,
        launched: Launched | None = None,
        started_ns: int | None = None,
    ) -> int:
        run = launched or partial(run_batch, tensors)
        outcome, may_split = self._attempt(run, run_batch, parts, tensors, began_ns, started_ns)
        ended_ns = outcome.times.began_ns + outcome.times.batch_ns + outcome.times.execute_ns
        if outcome.outputs is not None or len(parts) == 1 or not may_split:
            self._deliver(outcome)
            return ended_ns
        log.warning("a batch of %d rows failed and is tried in halves: %s", len(tensors[0]), outcome.error)
        half = len(parts) // 2
        for some in (parts[:half], parts[half:]):
            if still := [part for part in some if part.job.is_open]:
                ended_ns = self._settle(run_batch, still, _stacked(still), self._now_ns())
        return ended_ns

    def _attempt(
        self,
        run: Callable[[], Float32Array],
        run_batch: RunBatch,
        parts: list[Part],
        tensors: list[Tensor],
        began_ns: int,
        started_ns: int | None,
    ) -> tuple[Outcome, bool]:
        """The outcome, and whether it may be another in smaller batches."""
        started_ns = self._now_ns() if started_ns is None else started_ns
        rows, error, outputs, did_not_fit = len(tensors[0]), "", None, False
        try:
            try:
                outputs = self._checked(run(), rows)
            except OutOfMemory as failure:
                did_not_fit = True
                outputs = self._in_halves(run_batch, parts, failure)
        except DeviceLost:
            raise
        except OutOfMemory as failure:
            error = f"out of memory: {failure}"[:_MAX_SHOWN_ERROR]
        except Exception as failure:  # noqa: BLE001 - whatever a model raises is an outcome of its batch
            error = f"{type(failure).__name__}: {failure}"[:_MAX_SHOWN_ERROR]
        ended_ns = self._now_ns()
        queue_ns = sum((began_ns - part.job.arrived_ns) * part.rows for part in parts)
        self._count(Attempt(rows, ended_ns - began_ns, queue_ns, outputs is None, did_not_fit))
        times = BatchTimes(rows, began_ns, started_ns - began_ns, ended_ns - started_ns)
        return Outcome(parts, outputs, times, error), not did_not_fit

    def _in_halves(self, run_batch: RunBatch, parts: list[Part], failure: OutOfMemory) -> Float32Array:
        tensors = _stacked(parts)
        rows = len(tensors[0])
        if rows == 1:
            raise failure
        log.warning("a batch of %d rows did not fit into memory and is halved: %s", rows, failure)
        half = rows // 2
        halves = ([tensor[:half] for tensor in tensors], [tensor[half:] for tensor in tensors])
        return np.concatenate([self._checked(run_batch(some), len(some[0])) for some in halves])

    def _checked(self, outputs: Float32Array, rows: int) -> Float32Array:
        """A copy: the model's answer may be a view of the stage. Raises ValueError on another shape."""
        if outputs.shape != (rows, self._outputs):
            raise ValueError(f"the model gave {outputs.shape} for {rows} rows of {self._outputs} outputs")
        return np.array(outputs, dtype=np.float32)


def _stacked(parts: Sequence[Part]) -> list[Tensor]:
    """The requests' own rows anew: a model may have written into those it was given."""
    columns = zip(*(part.tensors() for part in parts), strict=True)
    return [np.concatenate(rows) for rows in columns]
