"""The Spark session of a job: what every job needs, under spark-submit or by itself."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_ALWAYS = {
    # Ids and partition folders are text: `01` is not the number 1, and times are compared in one zone.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# What a submission may override: sane for a night on one machine.
_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
}
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*: ")


class TaskFailed(Exception):
    """A task of a job failed; the same call may succeed once the cause is gone."""


@contextmanager
def spark_session(name: str) -> Iterator[SparkSession]:
    """The session of this process, stopped at the end where this block began it."""
    active = SparkSession.getActiveSession()
    if active is not None:
        _configure(active)
        yield active
        return
    # Workers must run this very interpreter, not the first `python3` on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    for key, value in _DEFAULTS.items():
        if not submitted:
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    if submitted and session.conf.get("spark.sql.shuffle.partitions") == "200":
        # Spark's own default, which nobody chose: 200 tasks for a night of megabytes are mostly overhead.
        session.conf.set("spark.sql.shuffle.partitions", str(max(8, session.sparkContext.defaultParallelism)))
    _configure(session)
    try:
        yield session
    finally:
        session.stop()


def _configure(session: SparkSession) -> None:
    for key, value in _ALWAYS.items():
        session.conf.set(key, value)


def driver_pid(session: SparkSession) -> int:
    """Of the JVM that drives the session's tasks, and runs them where Spark is local."""
    jvm: Any = session.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def run_tasks(
    session: SparkSession, work: Callable[[Iterable[Any]], Iterator[Any]], tasks: Sequence[Any]
) -> list[Any]:
    """Runs `work` on each of `tasks` in a Spark task of its own; what it gives, of the attempts that count.

    Raises:
        TaskFailed: a task failed as often as Spark tries; the message is its error's last line.
    """
    if not tasks:
        return []
    try:
        return session.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(work).collect()
    except (Py4JJavaError, PySparkException) as error:
        raise TaskFailed(_python_error(str(error)) or str(error)) from error


def _python_error(text: str) -> str | None:
    """The last line of the Python traceback in what Java says: `OSError: [Errno 28] No space left on device`."""
    _, found, traceback = text.partition("Traceback (most recent call last):")
    lines = (line for line in traceback.splitlines() if _ERROR_LINE.match(line))
    return next(lines, None) if found else None
