"""Makes Spark start faster on one machine. Standard library only: set-up uses it.

A night here is four starts of Spark and little work in between; README.md has what each option saves.
"""

import os
import re
import subprocess
from pathlib import Path

from infra.local.java import version_of
from infra.local.venvs import HOME, LOG, Environment, SetupFailed

CLASS_ARCHIVE = HOME / ".venv" / "spark-classes.jsa"
_KEY = CLASS_ARCHIVE.with_suffix(".key")
_WARM_UP_JOB = HOME / "infra" / "airflow" / "warm_spark.py"
# Jobs of many minutes are better off with the second compiler and another collector: a SPARK_SUBMIT_OPTS of
# the caller's own replaces all of these.
_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Dspark.ui.enabled=false"


def jvm_options() -> str:
    """For `SPARK_SUBMIT_OPTS`; with the archive of Spark's classes where set-up has made one."""
    # A JVM that the archive does not fit (another Java, another Spark) starts without it.
    return f'{_JVM_OPTIONS} "-XX:SharedArchiveFile={CLASS_ARCHIVE}"' if CLASS_ARCHIVE.exists() else _JVM_OPTIONS


def is_current(product: Environment, java_home: Path) -> bool:
    """Whether the archive was made with this Spark and this Java."""
    if not (CLASS_ARCHIVE.exists() and _KEY.exists()):
        return False
    return _KEY.read_text(encoding="utf-8") == _key(product, java_home)


def archive_classes(product: Environment, java_home: Path) -> None:
    """Runs a small job, and keeps the classes it has loaded in a file that later starts map into memory.

    Raises:
        SetupFailed: Spark does not run here.
    """
    CLASS_ARCHIVE.unlink(missing_ok=True)
    home = next((product.folder / "lib").glob("python3.*/site-packages/pyspark"))
    # One partition and one core: the classes are the same, and sooner loaded.
    options = f'{_JVM_OPTIONS} -Dspark.sql.shuffle.partitions=1 "-XX:ArchiveClassesAtExit={CLASS_ARCHIVE}"'
    env = os.environ | {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(product.python),
        "PYSPARK_DRIVER_PYTHON": str(product.python),
        "SPARK_SUBMIT_OPTS": options,
    }
    log = LOG / "setup-spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        job = [str(home / "bin" / "spark-submit"), "--master", "local[1]", str(_WARM_UP_JOB)]
        done = subprocess.run(job, env=env, cwd=HOME, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode or not CLASS_ARCHIVE.exists():
        raise SetupFailed(f"Spark does not run here; see {log}")
    _KEY.write_text(_key(product, java_home), encoding="utf-8")


def _key(product: Environment, java_home: Path) -> str:
    spark = re.search(r"^pyspark==.*$", product.lock.read_text(encoding="utf-8"), re.MULTILINE)
    job = _WARM_UP_JOB.read_text(encoding="utf-8")
    return f"{spark and spark[0]}\n{java_home} {version_of(java_home)}\n{CLASS_ARCHIVE}\n{job}"
