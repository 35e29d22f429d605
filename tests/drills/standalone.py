"""A standalone Spark of two workers with addresses of their own: a slow task begins again on another host only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from infra.local.java import find_java_home
from infra.local.settings import HOME
from tests.support.api_process import wait_for

_HOSTS = ("127.0.0.2", "127.0.0.3")
_START_S = 60.0


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The address of its master. `folder` takes logs and what executors write."""
    with ExitStack() as stack:
        log = folder / "master.log"
        _start(stack, log, "master.Master", "127.0.0.1", "--port", "0", "--webui-port", "0")
        address = wait_for(lambda: _address(log), _START_S, "a master of Spark")
        for number, host in enumerate(_HOSTS):
            work = folder / f"worker-{number}"
            words = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(work), address)
            _start(stack, folder / f"worker-{number}.log", "worker.Worker", host, *words)
        wait_for(lambda: log.read_text().count("Registering worker") == len(_HOSTS), _START_S, "Spark's workers")
        yield address


def _start(stack: ExitStack, log: Path, name: str, host: str, *words: str) -> None:
    home = Path(pyspark.__file__).parent
    java_home = find_java_home(os.environ)
    assert java_home, "no Java that Spark runs on: `make setup` says what to do"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": host,
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(HOME),
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host, *words]
    with log.open("wb") as file:
        process = stack.enter_context(subprocess.Popen(command, env=environment, stdout=file, stderr=file))
    stack.callback(process.kill)


def _address(log: Path) -> str | None:
    words = log.read_text().split()
    return next((word.rstrip(".") for word in words if word.startswith("spark://")), None)
