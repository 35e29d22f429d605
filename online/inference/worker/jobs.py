"""A request while it is in the worker: its rows, the parts it is split into, and what has been computed of it."""

from collections.abc import Callable, Hashable

import numpy as np

from online.tracing.context import TraceContext
from schemas.wire import Float32Array, Tensor


class Job:
    """One request. Its connection's thread opens and closes it; the device thread only reads it.

    Attributes:
        tensors: one for each input of the model, (rows, *shape) each.
        deadline_ns: by the monotonic clock, 0 for none.
        is_open: nobody has answered it yet.
        trace: what its spans are part of.
    """

    __slots__ = (
        *("arrived_ns", "batch_ns", "batch_rows", "close", "deadline_ns", "execute_ns", "is_open", "outputs"),
        *(
            "owner",
            "parts",
            "parts_left",
            "priority",
            "queue_ns",
            "request_id",
            "rows",
            "shape",
            "tensors",
            "trace",
        ),
    )

    def __init__(
        self,
        owner: object,
        request_id: int,
        priority: int,
        tensors: list[Tensor],
        arrived_ns: int,
        max_part_rows: int,
        deadline_ns: int = 0,
        trace: TraceContext | None = None,
    ) -> None:
        self.owner, self.request_id, self.priority, self.tensors = owner, request_id, priority, tensors
        self.arrived_ns, self.deadline_ns, self.trace = arrived_ns, deadline_ns, trace
        self.rows = len(tensors[0])
        self.shape: Hashable = tuple((tensor.shape[1:], tensor.dtype.char) for tensor in tensors)
        self.parts = [
            Part(self, start, min(max_part_rows, self.rows - start))
            for start in range(0, self.rows, max_part_rows)
        ]
        self.parts_left = len(self.parts)
        self.is_open = True
        self.close: Callable[[], None] | None = None  # ends the deadline's timer
        self.outputs: Float32Array | None = None
        self.batch_rows = self.queue_ns = self.batch_ns = self.execute_ns = 0

    def finish(self) -> None:
        """Marks it answered; whatever the device still says of it is dropped."""
        self.is_open = False
        if self.close is not None:
            self.close()
            self.close = None

    def accept(self, part: "Part", outputs: Float32Array, batch: "BatchTimes") -> bool:
        """Takes the outputs of one part, (part.rows, K). True once all rows have theirs.

        Of a split request the queue time is its first part's, the other times are sums, and the batch the largest.
        """
        if self.parts_left == len(self.parts):
            self.queue_ns = batch.began_ns - self.arrived_ns
        self.batch_ns += batch.batch_ns
        self.execute_ns += batch.execute_ns
        self.batch_rows = max(self.batch_rows, batch.rows)
        self.parts_left -= 1
        if len(self.parts) == 1:
            self.outputs = outputs
        else:
            if self.outputs is None:
                self.outputs = np.empty((self.rows, outputs.shape[1]), np.float32)
            self.outputs[part.start : part.start + part.rows] = outputs
        return self.parts_left == 0


class Part:
    """Rows of a request that go into one batch together: all of them, unless they are more than a batch holds."""

    __slots__ = ("job", "rows", "slot", "start")

    def __init__(self, job: Job, start: int, rows: int) -> None:
        self.job, self.start, self.rows = job, start, rows
        self.slot = -1  # first row of it in the stage; -1 where it is not stacked yet

    @property
    def shape(self) -> Hashable:
        return self.job.shape

    def tensors(self) -> list[Tensor]:
        stop = self.start + self.rows
        return [tensor[self.start : stop] for tensor in self.job.tensors]


class BatchTimes:
    """When a batch began to form, how long that and its execution took, and how many rows it had."""

    __slots__ = ("batch_ns", "began_ns", "execute_ns", "rows")

    def __init__(self, rows: int, began_ns: int, batch_ns: int, execute_ns: int) -> None:
        self.rows, self.began_ns, self.batch_ns, self.execute_ns = rows, began_ns, batch_ns, execute_ns
