"""Makes the two environments from their lock files. Standard library only: it runs before anything is installed.

A lock names every package, so pip need not resolve (`--no-deps`), but for the libraries of a CUDA build of torch.
Byte code is compiled afterwards, without the packages' own test suites and what this product never loads: a third
of all code.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
LOG = HOME / ".hotset" / "log"
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
PROBE_S = 3.0
UNUSED_CODE = r"/(tests?|testing/_internal|torch/_inductor|plotly/graph_objs|pip|playwright|mypy)/"

Say = Callable[[str], None]


class SetupFailed(Exception):
    """A step failed; the message says which and what to do."""


@dataclass(frozen=True)
class Environment:
    """One virtual environment and what belongs in it.

    Args:
        sources: files besides the lock on whose change it is brought up to date.
        editable: whether this repository itself is installed in it.
    """

    name: str
    folder: Path
    lock: Path
    sources: tuple[Path, ...] = ()
    editable: bool = False

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.folder / "hotset-setup"

    def key(self) -> str:
        """Changes when the environment has to be made or brought up to date."""
        parts = [str(self.folder), sys.version, Path(__file__).read_text(encoding="utf-8")]
        parts += [path.read_text(encoding="utf-8") for path in (self.lock, *self.sources)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def is_current(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text(encoding="utf-8") == self.key()


def bring_up_to_date(environment: Environment, say: Say) -> None:
    """Creates the environment, or installs what its lock has changed. Raises SetupFailed."""
    if environment.is_current():
        return
    log = LOG / f"setup-{environment.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    if not _belongs_here(environment):
        say(f"{environment.name}: making {environment.folder.name} with Python {platform.python_version()}")
        shutil.rmtree(environment.folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(environment.folder)], log, "make an environment")
    environment.stamp.unlink(missing_ok=True)
    say(f"{environment.name}: installing {_count(environment.lock)} packages")
    with_deps = [str(environment.python), "-m", "pip", "--disable-pip-version-check", "install", "--no-compile"]
    pip = [*with_deps, "--no-deps"]
    torch = _torch(environment.lock)
    index = _cpu_index() if torch else []
    for requirement in torch:
        _run([*pip, *index, requirement], log, "install torch")
    _run([*pip, "-r", str(environment.lock)], log, "install packages")
    for requirement in torch:
        # No lock names what a build for CUDA needs besides, gigabytes of libraries; a CPU build has all it needs.
        wanted = [*index, "-c", str(environment.lock), requirement]
        _run([*with_deps, *wanted], log, "install what this build of torch needs")
    if environment.editable:
        _run([*pip, "--no-build-isolation", "-e", str(HOME)], log, "install this repository")
    say(f"{environment.name}: compiling")
    # Some packages ship templates that are no valid Python; compileall's exit status only says that.
    compiling = [
        str(environment.python),
        "-m",
        "compileall",
        "-q",
        "-j",
        "2",
        "-x",
        UNUSED_CODE,
        str(environment.folder / "lib"),
    ]
    subprocess.run(compiling, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    environment.stamp.write_text(environment.key(), encoding="utf-8")
    say(f"{environment.name}: ready")


def _belongs_here(environment: Environment) -> bool:
    """Whether the folder holds a working environment of this Python, made in this place.

    One that was copied or moved would run programs of the old place.
    """
    config = environment.folder / "pyvenv.cfg"
    pip = environment.folder / "bin" / "pip"
    if not (config.exists() and pip.exists() and environment.python.exists()):
        return False
    same_place = str(environment.folder) in pip.read_text(encoding="utf-8", errors="replace")[:400]
    shown = subprocess.run([environment.python, "--version"], capture_output=True, text=True, check=False).stdout
    return same_place and shown.split()[-1:] == [platform.python_version()]


def _torch(lock: Path) -> list[str]:
    return re.findall(r"^torch==\S+", lock.read_text(encoding="utf-8"), re.MULTILINE)


def _cpu_index() -> list[str]:
    """Where torch comes from: on Linux PyPI's own build is the one of several GB for CUDA.

    `TORCH_INDEX` names another index, or, left empty, none. The index of CPU builds is used where it answers;
    a machine without it has pip configured for a mirror.
    """
    chosen = os.environ.get("TORCH_INDEX")
    if chosen is None:
        chosen = CPU_TORCH if platform.system() == "Linux" and _answers(f"{CPU_TORCH}/torch/") else ""
    return ["--extra-index-url", chosen] if chosen else []


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PROBE_S):
            return True
    except (OSError, ValueError):
        return False


def _count(lock: Path) -> int:
    return len(re.findall(r"^\S+==", lock.read_text(encoding="utf-8"), re.MULTILINE))


def _run(argv: Sequence[str], log: Path, what: str) -> None:
    with log.open("ab") as out:
        done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, cwd=HOME, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SetupFailed(f"could not {what}; all of it is in {log}. Its end:\n{tail}")
