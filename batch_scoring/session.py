"""The Spark session of a job: what every job needs, under spark-submit or by itself."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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


def column_batch_rows(session: SparkSession, rows: int) -> None:
    """Bounds the Arrow batches that Python gets."""
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows))
