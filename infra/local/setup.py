"""Sets up this machine: Java, the product's environment, Airflow's environment. `make setup` runs it.

With `--browser` the Chromium, the Redis and the promtool that tests drive, and nothing else: only developers need
them. Quick when nothing has changed. Standard library only: it runs before anything is installed.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from infra.local.java import find_java_home
from infra.local.spark import archive_classes, is_current, jvm_options
from infra.local.venvs import HOME, LOG, Environment, SetupFailed, bring_up_to_date
from infra.prometheus import programs as prometheus

REQUIREMENTS = HOME / "infra" / "requirements"
PRODUCT = Environment(
    "product", HOME / ".venv", REQUIREMENTS / "product.lock", (HOME / "pyproject.toml",), editable=True
)
AIRFLOW = Environment("airflow", HOME / ".venv-airflow", REQUIREMENTS / "airflow.lock")
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
JAVA_BY_HAND = "; macOS: brew install openjdk@21) and, where it is not on the path, set JAVA_HOME."
BROWSER_PACKAGES = ("chromium", "chromium-browser")
BROWSER_BY_HAND = ") or name a Chromium by the variable CHROMIUM."
# The server is in it under its checker's name; the package redis-server would also start it as a service.
REDIS_PACKAGES = ("redis-tools",)
REDIS_PROGRAMS = ("redis-server", "redis-check-rdb")
REDIS_BY_HAND = "; macOS: brew install redis) or name a redis-server by the variable REDIS_SERVER."
JAVA_HOME_FILE = HOME / ".hotset" / "java-home"
SPARK_OPTIONS_FILE = HOME / ".hotset" / "spark-options"
SAY_EVERY_S = 10.0

_began = time.monotonic()


def main() -> int:
    """Exit status: 0 all is there, 1 something is missing; what to do about it is said."""
    return _for_tests() if "--browser" in sys.argv[1:] else _everything()


def _for_tests() -> int:
    try:
        if not (os.environ.get("CHROMIUM") or any(map(shutil.which, BROWSER_PACKAGES))):
            _install(BROWSER_PACKAGES, "Chromium", BROWSER_BY_HAND)
        if not (os.environ.get("REDIS_SERVER") or any(map(shutil.which, REDIS_PROGRAMS))):
            _install(REDIS_PACKAGES, "Redis", REDIS_BY_HAND)
        prometheus.fetch(_say)
    except SetupFailed as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _everything() -> int:
    java = find_java_home()
    if PRODUCT.is_current() and AIRFLOW.is_current() and java and is_current(PRODUCT, java):
        _note(java)
        return 0
    with ThreadPoolExecutor(3) as pool:
        getting_java = pool.submit(_java)
        steps: dict[str, Future[None]] = {
            "product environment": pool.submit(_product, getting_java),
            "Airflow's environment": pool.submit(bring_up_to_date, AIRFLOW, _say),
        }
        _show(steps)
    errors = [getting_java.exception(), *(step.exception() for step in steps.values())]
    failed = [str(error) for error in errors if error]
    # Java's failure is reported once, although the product's step waits for it.
    for text in dict.fromkeys(failed):
        print(text, file=sys.stderr)  # noqa: T201
    if failed:
        return 1
    _note(getting_java.result())
    _say("set-up done")
    return 0


def _product(java: Future[Path]) -> None:
    bring_up_to_date(PRODUCT, _say)
    home = java.result()
    if not is_current(PRODUCT, home):
        _say("Spark: archiving its classes")
        archive_classes(PRODUCT, home)
        _say("Spark: ready")


def _java() -> Path:
    """The home of a Java that Spark runs on, installed where Debian and root allow. Raises SetupFailed."""
    home = find_java_home()
    if home is None:
        _install(JAVA_PACKAGES, "Java 17 or 21", JAVA_BY_HAND)
        home = find_java_home()
    if home is None:
        raise SetupFailed("Java 17 or 21 was installed but is not found; set JAVA_HOME to it")
    return home


def _note(java: Path) -> None:
    """For the Makefile: the Java on the path may be another one, and Spark starts faster with these options."""
    JAVA_HOME_FILE.parent.mkdir(parents=True, exist_ok=True)
    JAVA_HOME_FILE.write_text(str(java), encoding="utf-8")
    SPARK_OPTIONS_FILE.write_text(jvm_options(), encoding="utf-8")


def _install(packages: tuple[str, ...], what: str, otherwise: str) -> None:
    """Installs the first of the Debian packages that apt knows. Raises SetupFailed with what to do by hand."""
    by_hand = (
        f"{what} is needed and was not found. Install it (Debian: sudo apt-get install {packages[0]}{otherwise}"
    )
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupFailed(by_hand)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    log = LOG / "setup-apt.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:

        def apt(*words: str) -> bool:
            argv = ["apt-get", "-qq", *words]
            return subprocess.run(argv, env=env, stdout=out, stderr=subprocess.STDOUT, check=False).returncode == 0

        _say(f"{what}: installing by apt")
        apt("update")
        if not any(apt("install", "-y", "--no-install-recommends", package) for package in packages):
            raise SetupFailed(f"{by_hand} (apt could not: see {log})")
    _say(f"{what}: installed")


def _show(steps: dict[str, Future[None]]) -> None:
    """Says now and then which steps still run."""
    while running := [name for name, step in steps.items() if not step.done()]:
        wait([steps[name] for name in running], timeout=SAY_EVERY_S)
        left = [name for name in running if not steps[name].done()]
        if left:
            _say(f"... {' and '.join(left)}")


def _say(text: str) -> None:
    print(f"[{time.monotonic() - _began:4.0f} s] {text}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
