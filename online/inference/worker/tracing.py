"""Spans of traced requests: how long each waited, how its batch was put together, and the model's own time."""

import time
from collections.abc import Iterator

from online.inference.worker.jobs import Job
from online.tracing.context import TraceContext, new_span_id, part_id
from online.tracing.spans import Kind, Span, SpanSender


class JobTracer:
    """One for all connections of a worker; told of a job when it is answered."""

    def __init__(self, sender: SpanSender, model: str, version: str) -> None:
        self._sender = sender
        self._named = {"hotset.model": model, "hotset.version": version}

    def end(self, job: Job, error: str = "") -> None:
        """`error`: the code and reason of a failure. Does nothing for a job that is not traced."""
        if job.trace is not None:
            self._sender.put(list(self._spans(job, job.trace, error)))

    def _spans(self, job: Job, trace: TraceContext, error: str) -> Iterator[Span]:
        ended_ns = time.time_ns()
        # Both clocks are read here, so that the job's own times, which are monotonic, become times of day.
        began_ns = ended_ns - (time.monotonic_ns() - job.arrived_ns)
        own, rows = new_span_id(), {"hotset.rows": job.rows, "hotset.batch_rows": job.batch_rows}
        yield Span(
            *(trace.trace_id, own, trace.span_id, "inference", Kind.SERVER, began_ns, ended_ns),
            attributes={**self._named, **rows},
            error=error,
        )
        if error:
            return
        at_ns = began_ns
        for what, took_ns in (("queue", job.queue_ns), ("batch", job.batch_ns), ("execute", job.execute_ns)):
            until_ns = at_ns + max(0, took_ns)
            yield Span(trace.trace_id, part_id(own, what), own, what, Kind.INTERNAL, at_ns, until_ns, {})
            at_ns = until_ns
