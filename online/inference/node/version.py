"""One configured bundle: its worker is started, listened to, and started again when it ends, with growing pauses.

A bundle that is refused is tried again slowly. Nothing here touches another version.
"""

import asyncio
import logging
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing, suppress

from online.inference.node.process import WorkerProcess, worker_arguments
from online.inference.node.settings import BundleAddress, InferenceSettings
from online.inference.report import EXIT_REFUSED, Report, State

log = logging.getLogger(__name__)

_FRESH_S = 4.0  # reports come each second
_END_S = 3.0


class Version:
    """Supervises one worker. `run` is one task of the node's; everything is in its loop.

    Args:
        threads: of torch in the worker.
        on_change: called after each change of `state`.
    """

    def __init__(
        self, settings: InferenceSettings, bundle: BundleAddress, threads: int, on_change: Callable[[], None]
    ) -> None:
        self._settings, self._threads, self._on_change = settings, threads, on_change
        self._process: WorkerProcess | None = None
        self._draining = asyncio.Event()
        self._state, self._reason = State.LOADING, ""
        self._reported_s = time.monotonic()
        self._past: Counter[str] = Counter()
        self.bundle = bundle
        self.report = Report(State.LOADING)
        self.loads = self.restarts = 0

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

    def drain(self) -> None:
        """`run` ends when the worker has answered what it holds."""
        self._draining.set()
        if self._process is not None:
            self._process.drain()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    async def run(self) -> None:
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
            self._change(State.STOPPED, "")

    async def _run_worker(self) -> tuple[int | None, str]:
        """One worker from start to end: its exit status, and why it ended."""
        self._change(State.LOADING, self._reason)
        self.loads += 1
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
                if report.executing_ms > 1e3 * self._settings.stall_s:
                    process.kill()
                    return f"a batch did not end within {self._settings.stall_s:g} s, the worker was killed"

    def _take(self, report: Report) -> None:
        was_silent, self._reported_s = self._is_silent, time.monotonic()
        changed = was_silent or report.model != self.report.model
        self.report = report
        if report.state is not self._state or changed:
            reason = self._reason if report.state is State.LOADING else report.reason
            self._change(report.state, reason)

    def _change(self, state: State, reason: str) -> None:
        self._state, self._reason = state, reason
        log.info("version is %s", state, extra={**self._names(), "reason": reason})
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
