"""What a worker says of itself, in the reports to its node and in the status frames to its clients."""

import time
from dataclasses import asdict

from online.inference.report import Report, State
from online.inference.worker.warm import Warm
from online.inference.worker.wire_server import RequestCounts
from schemas import wire
from schemas.manifest import Manifest


class StatusBoard:
    """What is known at the moment. The counts of requests are the wire server's own object."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._busy_at_ns, self._busy_ns = time.monotonic_ns(), 0
        self._busy_share = 0.0
        self.state = State.LOADING
        self.reason = ""
        self.manifest: Manifest | None = None
        self.warm: Warm | None = None
        self.address: str | None = None
        self.requests = RequestCounts()

    def measure_load(self) -> None:
        """To be called each second. A batch counts for the second it ended in."""
        if self.warm is None:
            return
        now_ns, busy_ns = time.monotonic_ns(), self.warm.batcher.counts.busy_ns
        self._busy_share = min(1.0, (busy_ns - self._busy_ns) / max(1, now_ns - self._busy_at_ns))
        self._busy_at_ns, self._busy_ns = now_ns, busy_ns

    def report(self) -> Report:
        named = Report(
            state=self.state,
            reason=self.reason,
            model=self.manifest.name if self.manifest else None,
            version=self.manifest.version if self.manifest else None,
            address=self.address,
        )
        if self.warm is None:
            return named
        warm, batcher = self.warm, self.warm.batcher
        fit = batcher.time.fit
        return Report(
            state=named.state,
            reason=named.reason,
            model=named.model,
            version=named.version,
            address=named.address,
            max_batch_rows=warm.max_batch_rows,
            tau0_ms=fit.tau0_ms,
            alpha_ms=fit.alpha_ms,
            table=warm.table,
            queued_rows=batcher.queued_rows,
            executing_rows=batcher.executing_rows,
            executing_ms=batcher.executing_ns / 1e6,
            queue_age_ms=batcher.queue_age_ns / 1e6,
            busy_share=self._busy_share,
            counts={**batcher.counts.totals(), **asdict(self.requests), "overruns": warm.overruns()},
        )

    def hello(self) -> bytes:
        """Once warm."""
        assert self.manifest is not None
        assert self.warm is not None
        inputs = [(tensor.name, tensor.dtype, tensor.width) for tensor in self.manifest.inputs]
        return wire.hello(
            {
                "role": "worker",
                "model": self.manifest.name,
                "version": self.manifest.version,
                "digest": self.warm.digest,
                "device": self._device,
                "max_batch_rows": self.warm.max_batch_rows,
                "inputs": wire.describe_inputs(inputs),
                "outputs": self.manifest.output_names,
            }
        )

    def frame(self) -> bytes:
        report = self.report()
        return wire.status(
            {
                "state": report.state,
                "reason": report.reason,
                "device": self._device,
                "max_batch_rows": report.max_batch_rows,
                "tau0_ms": report.tau0_ms,
                "alpha_ms": report.alpha_ms,
                "queued_rows": report.queued_rows,
                "executing_rows": report.executing_rows,
                "executing_ms": report.executing_ms,
            }
        )
