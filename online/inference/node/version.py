"""One bundle that is served: its worker is started, listened to, and started again when it ends, with pauses.

A bundle that is refused is tried again slowly. Nothing here touches another version.
"""

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress

from online.inference.node.link import WorkerLink
from online.inference.node.process import WorkerProcess, worker_arguments
from online.inference.node.settings import BundleAddress, InferenceSettings
from online.inference.report import EXIT_REFUSED, Report, State
from online.tracing.context import TraceContext
from online.wire_client.asking import Rows
from schemas.bundle import BundleError, fetch_manifest, load_transform
from schemas.features import FeatureTransform
from schemas.manifest import Manifest
from schemas.wire import Result, Tensor, version_tag

log = logging.getLogger(__name__)

_FRESH_S = 4.0  # reports come each second
_END_S = 3.0


class Version:
    """Supervises one worker. `supervise` is one task of the node's; everything is in its loop.

    Args:
        on_change: called after each change of `state`.

    Attributes:
        manifest, transform: of the bundle, once its worker has read it.
        load_s: how long its worker took to be warm; None until it is.
        changed: set at each change of `state`; whoever waits clears it.
    """

    def __init__(self, settings: InferenceSettings, bundle: BundleAddress, on_change: Callable[[], None]) -> None:
        self._settings, self._on_change = settings, on_change
        self._threads = 1
        self._link = WorkerLink(bundle.digest)
        self._process: WorkerProcess | None = None
        self._draining = asyncio.Event()
        self._state, self._reason = State.LOADING, ""
        self._reported_s = time.monotonic()
        self._past: Counter[str] = Counter()
        self.bundle = bundle
        self.report = Report(State.LOADING)
        self.loads = self.restarts = 0
        self._began_s = 0.0
        self.load_s: float | None = None
        self.manifest: Manifest | None = None
        self.transform: FeatureTransform | None = None
        self.changed = asyncio.Event()

    @property
    def model(self) -> str | None:
        """None until its manifest was read, like `name`, which is the version's."""
        return self.report.model

    @property
    def name(self) -> str | None:
        return self.report.version

    @property
    def state(self) -> State:
        return State.FAILED if self._state is State.READY and self._is_silent else self._state

    @property
    def reason(self) -> str:
        if self._state is State.READY and self._is_silent:
            return f"the worker has reported nothing for {time.monotonic() - self._reported_s:.0f} s"
        return self._reason

    @property
    def is_ready(self) -> bool:
        return self.state is State.READY

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def counts(self) -> Counter[str]:
        """Totals over all of its workers, so that a restart is no fall."""
        return self._past + Counter(self.report.counts)

    async def run(
        self, tensors: list[Tensor], deadline_s: float, priority: int = 0, trace: TraceContext | None = None
    ) -> Result:
        """Runs rows on its worker; cancelling the task withdraws them.

        Args:
            tensors: (rows, width) each, in wire order.
            deadline_s: by the event loop's clock.
            trace: what the worker's spans are part of.

        Raises:
            ReplicaGone, ReplicaRefused, TimeoutError.
        """
        rows = Rows(version_tag(self.bundle.digest), tensors, deadline_s, priority, trace)
        return await self._link.run(self.report.address, rows)

    def give_threads(self, threads: int) -> None:
        """How many torch may use from now on; the worker follows before its next batch."""
        self._threads = threads
        if self._process is not None:
            self._process.give_threads(threads)

    def drain(self) -> None:
        """`supervise` ends when the worker has answered what it holds."""
        self._draining.set()
        if self._process is not None:
            self._process.drain()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def prepare(self) -> None:
        """To be called before each `supervise`."""
        self._draining.clear()
        self._state, self._reason = State.LOADING, ""

    async def supervise(self) -> None:
        """Until drained. An error of its own ends it, and with it the node."""
        pause_s = self._settings.restart_pause_s
        try:
            while not self._draining.is_set():
                began_s = time.monotonic()
                status, reason = await self._run_worker()
                if self._draining.is_set():
                    break
                if time.monotonic() - began_s >= self._settings.steady_s:
                    pause_s = self._settings.restart_pause_s
                wait_s = self._settings.refused_retry_s if status == EXIT_REFUSED else pause_s
                pause_s = min(2 * pause_s, self._settings.restart_pause_max_s)
                self._change(State.FAILED, reason)
                log.error("version failed, next start in %.1f s: %s", wait_s, reason, extra=self._names())
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._draining.wait()
                self.restarts += not self._draining.is_set()
        finally:
            self.kill()
            self._link.close()
            self._change(State.STOPPED, "")

    async def _run_worker(self) -> tuple[int | None, str]:
        """One worker from start to end: its exit status, and why it ended."""
        self._change(State.LOADING, self._reason)
        self.loads += 1
        self._began_s, self.load_s = time.monotonic(), None
        try:
            arguments = worker_arguments(self._settings, self.bundle, self._threads)
            self._process = process = await WorkerProcess.start(arguments, self._threads)
        except OSError as error:
            return None, f"no worker could be started: {error}"
        if self._draining.is_set():
            process.drain()
        try:
            reason = await self._listen(process)
            status = await process.end(_END_S)
        finally:
            process.kill()
            self._process = None
            self._past.update(self.report.counts)
            # Names stay, so that the version keeps its labels; all that was true of the worker goes.
            self.report = Report(State.FAILED, model=self.report.model, version=self.report.version)
        return status, reason or _how_it_ended(status)

    async def _listen(self, process: WorkerProcess) -> str:
        """Takes reports until there are no more; the reason of the last, or why the worker has to be killed."""
        self._reported_s = time.monotonic()
        async with aclosing(process.reports()) as reports:
            while True:
                try:
                    async with asyncio.timeout(self._settings.silent_s):
                        report = await anext(reports, None)
                except TimeoutError:
                    process.kill()
                    return f"the worker reported nothing for {self._settings.silent_s:g} s and was killed"
                except ValueError as error:
                    process.kill()
                    return f"the worker was killed: {error}"
                if report is None:
                    return self.report.reason
                self._take(report)
                if report.model is not None and self.manifest is None:
                    await self._read_manifest()
                if report.executing_ms > 1e3 * self._settings.stall_s:
                    process.kill()
                    return f"a batch did not end within {self._settings.stall_s:g} s, the worker was killed"

    async def _read_manifest(self) -> None:
        """From the copy that the worker has just verified."""
        cache = self._settings.cache
        try:
            manifest, _ = await asyncio.to_thread(
                fetch_manifest, str(cache / self.bundle.digest), self.bundle.digest, [str(cache)]
            )
            copy = cache / self.bundle.digest
            self.transform = await asyncio.to_thread(load_transform, copy, manifest)
            self.manifest = manifest
        except BundleError as error:  # tried again at the next report
            log.warning("the bundle's copy cannot be read: %s", error, extra=self._names())

    def _take(self, report: Report) -> None:
        was_silent, self._reported_s = self._is_silent, time.monotonic()
        changed = was_silent or report.model != self.report.model
        self.report = report
        if report.state is State.READY and self.load_s is None:
            self.load_s = self._reported_s - self._began_s
        if report.state is not self._state or changed:
            reason = self._reason if report.state is State.LOADING else report.reason
            self._change(report.state, reason)

    def _change(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason
        log.info("version is %s", state, extra={**self._names(), "reason": reason})
        self.changed.set()
        self._on_change()

    @property
    def _is_silent(self) -> bool:
        return time.monotonic() - self._reported_s > _FRESH_S

    def _names(self) -> dict[str, object]:
        return {"model": self.report.model, "version": self.report.version, "digest": self.bundle.digest}


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"the worker ended with status {status}"
    return f"the worker was ended by {signal.Signals(-status).name}"
