"""Steps of a night as processes of their own, which a drill may kill or hold.

They are forked from a server that has imported the product once, so that starting one takes milliseconds. What
they log goes to a file: `Job.said`.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.runs import Run
from tests.support.publish_plainly import main as publish_main

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
Environment = Mapping[str, str]


def step(name: str, run: Run) -> int:
    """One step in this process; its exit status. `publish` is without Spark's start."""
    if name == "publish":
        return publish_main(["--run", run.url])
    return publishing_main([name, "--run", run.url, "--token", str(run.token)])


def _work(steps: Sequence[str], run: Run, environment: Environment, log: Path) -> None:
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ.clear()
    os.environ.update(environment)
    for name in steps:
        if status := step(name, run):
            sys.exit(status)


class Job:
    """Use as `with`: it is killed at the end where it still runs.

    Args:
        steps: done one after the other, until one fails.
    """

    def __init__(self, steps: Sequence[str], run: Run, environment: Environment, log: Path) -> None:
        self._log = log
        given = (tuple(steps), run, dict(environment), log)
        self._process = _CONTEXT.Process(target=_work, args=given, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    @property
    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait(self, timeout_s: float = 60.0) -> int:
        """The exit status; of a signal its negative number."""
        self._process.join(timeout_s)
        status = self._process.exitcode
        assert status is not None, f"still running after {timeout_s} s: {self.said}"
        return status
