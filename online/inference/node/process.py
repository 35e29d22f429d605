"""One run of a worker process: started, listened to, told to drain, ended for certain.

Its standard input is the leash: the pipe closes when the node dies, and the worker ends with it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Self

from online.inference.node.settings import BundleAddress, InferenceSettings
from online.inference.report import DRAIN, MAX_LINE_BYTES, Report, threads_order

_MODULE = "online.inference.worker"
# Of the time from SIGTERM to the end; the rest is for sending the last answers and for ending.
_DRAIN_SHARE = 0.8


class WorkerProcess:
    """Made by `start`. A group of its own: a Ctrl-C in the terminal reaches the node alone, which then drains."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, arguments: Sequence[str], threads: int) -> Self:
        """Raises OSError where no process can be started."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2 * MAX_LINE_BYTES,
            start_new_session=True,
            # OpenMP counts the host's cores while torch is being imported, before anyone can tell it otherwise.
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def reports(self) -> AsyncGenerator[Report, None]:
        """Until the worker ends, which closes the pipe. Raises ValueError on a line that is no report."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            yield Report.from_line(line)

    def drain(self) -> None:
        self._order(DRAIN)

    def give_threads(self, threads: int) -> None:
        self._order(threads_order(threads))

    def _order(self, order: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError, RuntimeError):  # it has ended already
            self._process.stdin.write(order + b"\n")

    def kill(self) -> None:
        """The whole group, unless it has been waited for."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self, grace_s: float) -> int:
        """The exit status, negative for a signal, of a worker that is ending; after `grace_s` it is killed."""
        try:
            async with asyncio.timeout(grace_s):
                return await self._process.wait()
        except TimeoutError:
            self.kill()
            return await self._process.wait()


def worker_arguments(settings: InferenceSettings, bundle: BundleAddress, threads: int) -> list[str]:
    """The command line of the worker that serves `bundle`."""
    arguments = [
        *(f"--url={bundle.url}", "--digest", bundle.digest, "--cache", str(settings.cache)),
        *("--device", settings.device, "--threads", str(threads), "--host", settings.host),
        *("--advertise-host", settings.advertised_host),
        *("--instances", str(settings.instances), "--precision", settings.precision),
        *("--max-queue-delay-ms", str(settings.max_queue_delay_ms)),
        *("--max-queued-rows", str(settings.max_queued_rows), "--drain-s", str(_DRAIN_SHARE * settings.drain_s)),
        *("--log-level", settings.log_level),
    ]
    for prefix in settings.allowed_bundle_urls:
        arguments.append(f"--allowed-url={prefix}")
    if settings.otlp_url:
        arguments.append(f"--otlp-url={settings.otlp_url}")
    if settings.cuda_graphs:
        arguments.append("--cuda-graphs")
    if settings.memory_limit_mib is not None:
        arguments += ["--memory-limit-mib", str(settings.memory_limit_mib)]
    if settings.max_batch_rows is not None:
        arguments += ["--max-batch-rows", str(settings.max_batch_rows)]
    if settings.unix_sockets is not None:
        # A path of a socket holds about 100 bytes, so only the start of the digest.
        arguments += ["--unix-socket", str(settings.unix_sockets / f"{bundle.digest[:16]}.sock")]
    return arguments
