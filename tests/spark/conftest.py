"""One Spark session for all tests of this folder, and small nights on a real Valkey."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.night import SmallNight
from tests.support.site import running_valkey


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("hotset-tests").master("local[2]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def night(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallNight]:
    """A data root, a bundle and an empty Valkey; the jobs run in this process, on the shared session."""
    with running_valkey(tmp_path) as (url, redis):
        small = SmallNight(tmp_path, url, redis)
        for name, value in small.environment().items():
            monkeypatch.setenv(name, value)
        yield small
