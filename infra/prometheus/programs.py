"""Prometheus' own programs, for the tests: on the path, or unpacked from Debian's package without installing it.

An installed package would start a server of its own. Standard library only, since set-up runs it.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
_UNPACKED = HOME / ".hotset" / "prometheus"
_TOOL = "promtool"
_DOWNLOAD = ("apt-get", "-qq", "download", "prometheus")
_PATIENCE_S = 120.0


def find(program: str) -> str | None:
    """`promtool` or `prometheus`; None where it is nowhere."""
    unpacked = _UNPACKED / "usr" / "bin" / program
    return shutil.which(program) or (str(unpacked) if unpacked.exists() else None)


def fetch(say: Callable[[str], None]) -> bool:
    """Unpacks Debian's package where there is no promtool yet and apt can get it. Whether there is one now."""
    if find(_TOOL) is not None:
        return True
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        say("Prometheus: no promtool, and no apt to get it by; its checks are skipped")
        return False
    say("Prometheus: unpacking Debian's package")
    with tempfile.TemporaryDirectory() as folder:
        # The lists of packages may be too old, or missing; bringing them up to date needs root.
        is_there = _quietly(_DOWNLOAD, folder) or (
            _quietly(("apt-get", "-qq", "update"), folder) and _quietly(_DOWNLOAD, folder)
        )
        packages = [str(path) for path in Path(folder).glob("prometheus_*.deb")]
        _UNPACKED.mkdir(parents=True, exist_ok=True)
        if not is_there or not _quietly(("dpkg-deb", "-x", *packages, str(_UNPACKED)), folder):
            say("Prometheus: apt could not get it; the checks of promtool are skipped")
    return find(_TOOL) is not None


def _quietly(words: Sequence[str], folder: str) -> bool:
    """Whether it ran and went well."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            check=False,
            timeout=_PATIENCE_S,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
