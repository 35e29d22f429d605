"""Processes with a Spark of their own, whose settings the tests' shared session cannot have.

`python -m tests.support.own_spark score RUN key=value …` runs the score step of a run;
`python -m tests.support.own_spark devices DEVICE key=value …` prints as JSON which device each of some tasks gets.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from batch_scoring.scoring.__main__ import main as score_main
from batch_scoring.scoring.model import task_device
from batch_scoring.session import run_tasks

_HOME = Path(__file__).resolve().parents[2]
_TASKS = 4


def start(
    what: str, subject: str, settings: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """Starts such a process, in a session of its own so that all of it can be ended."""
    words = [sys.executable, "-m", "tests.support.own_spark", what, subject]
    return subprocess.Popen(
        [*words, *(f"{key}={value}" for key, value in settings.items())],
        env={**os.environ, **(environment or {}), "PYTHONPATH": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=_HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def main() -> int:
    what, subject, *settings = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("hotset-tests").config("spark.ui.enabled", "false")
    for setting in settings:
        builder = builder.config(*setting.split("=", 1))
    session = builder.getOrCreate()
    try:
        if what == "score":
            return score_main(["--run", subject])
        print(json.dumps(run_tasks(session, partial(_devices, subject), list(range(_TASKS)))))  # noqa: T201
        return 0
    finally:
        session.stop()


def _devices(wanted: str, tasks: Iterable[int]) -> Iterator[str]:
    for _ in tasks:
        yield task_device(wanted)


if __name__ == "__main__":
    sys.exit(main())
