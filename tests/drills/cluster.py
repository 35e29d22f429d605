"""A Spark job as the night submits it, on a cluster of two executors on this machine, of which any may go."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import pyspark

from infra.local.java import find_java_home
from infra.local.settings import HOME
from infra.local.spark import jvm_options
from tests.bench.scoring.product import workers
from tests.support.api_process import wait_for

JOBS = HOME / "batch_scoring"
_MASTER = "local-cluster[2,1,1024]"
_START_S = 150.0


class Submitted:
    """Use as `with`; everything it started is ended with it.

    Args:
        job: file of the job, below `JOBS`.
        environment: `BATCH_*`.
        more: settings of Spark, after those that are given here.
    """

    def __init__(
        self,
        job: str,
        run_url: str,
        environment: Mapping[str, str],
        folder: Path,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.scratch = folder / "spark"
        self._log = folder / "submit.log"
        # A home of its own, since workers write into it whatever they are told.
        self._home = folder / "spark-home"
        java_home = find_java_home(os.environ)
        assert java_home, "no Java that Spark runs on: `make setup` says what to do"
        self._environment = {
            **os.environ,
            **environment,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.scratch),
            "SPARK_WORKER_DIR": str(self.scratch / "work"),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "JAVA_HOME": str(java_home),
            "PYTHONPATH": str(HOME),
        }
        command = [self._home / "bin" / "spark-submit", "--conf", _executor_options()]
        for setting in {"spark.master": _MASTER, **(more or {})}.items():
            command += ["--conf", "=".join(setting)]
        command += [JOBS / job, "--run", run_url]
        self._command = list(map(str, command))

    def __enter__(self) -> Self:
        self.scratch.mkdir()
        self._home.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            if path.name != "work":
                (self._home / path.name).symlink_to(path)
        with self._log.open("wb") as log:
            self._driver = subprocess.Popen(
                self._command, env=self._environment, cwd=self.scratch, stdout=log, stderr=log
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for process in self._below():
            _kill(process)
        self._driver.kill()
        self._driver.wait()

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._driver.poll() is None

    def wait(self, timeout_s: float = _START_S) -> int:
        return self._driver.wait(timeout_s)

    def held_worker(self, mark: Path) -> psutil.Process:
        """The Python worker that waits at a fail point."""
        wait_for(lambda: mark.exists() or not self.is_running, _START_S, f"{mark.name}: {self.said}")
        assert mark.exists(), self.said
        return psutil.Process(int(wait_for(mark.read_text)))

    def executor_of(self, worker: psutil.Process) -> psutil.Process:
        return next(one for one in worker.parents() if _is_executor(one))

    def executor_with(self, pattern: str) -> psutil.Process:
        """The executor in whose scratch folder such a file is, as soon as there is one."""

        def found() -> psutil.Process | None:
            paths = [str(path) for path in self.scratch.glob(f"**/{pattern}")]
            assert self.is_running, self.said
            for one in filter(_is_executor, self._below()) if paths else ():
                folders = one.environ().get("SPARK_EXECUTOR_DIRS", "none")
                if any(path.startswith(folders) for path in paths):
                    return one
            return None

        executor: psutil.Process = wait_for(found, _START_S, f"{pattern}: {self.said}")
        return executor

    def an_executor(self) -> psutil.Process:
        return next(filter(_is_executor, self._below()))

    def first_executor(self) -> psutil.Process:
        """As soon as there is one."""
        found: psutil.Process = wait_for(
            lambda: next(filter(_is_executor, self._below()), None), _START_S, f"an executor: {self.said}"
        )
        return found

    @property
    def python_workers(self) -> list[psutil.Process]:
        return workers(self._driver.pid)

    @property
    def niceness(self) -> int:
        """Of the JVM that drives it."""
        return int(psutil.Process(self._driver.pid).nice())

    def kill_driver(self) -> None:
        """Both halves of it, JVM and Python; what they started is left to itself."""
        python = [one for one in psutil.Process(self._driver.pid).children() if not _is_executor(one)]
        self._orphans = self._below()
        self._driver.send_signal(signal.SIGKILL)
        for one in python:
            _kill(one)

    def _below(self) -> list[psutil.Process]:
        orphans: list[psutil.Process] = getattr(self, "_orphans", [])
        try:
            return [*psutil.Process(self._driver.pid).children(recursive=True), *orphans]
        except psutil.NoSuchProcess:
            return orphans


def _executor_options() -> str:
    """They start as fast as the driver does; Spark refuses options of its own here."""
    words = shlex.split(jvm_options())
    return f"spark.executor.extraJavaOptions={' '.join(word for word in words if not word.startswith('-Dspark'))}"


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()
