"""Finds a Java that Spark 4.3 runs on. Standard library only: set-up uses it before anything is installed."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

VERSIONS = (17, 21)
_VERSION = re.compile(r'version "(\d+)')
_FOLDERS = ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines", "/opt/homebrew/opt")


def find_java_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """`JAVA_HOME`, then `java` on the path, then the usual folders: the first of version 17 or 21."""
    return next((home for home in _candidates(environment) if version_of(home) in VERSIONS), None)


def version_of(home: Path) -> int | None:
    """The major version of the Java under `home`, or None where there is none."""
    try:
        run = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = _VERSION.search(run.stderr + run.stdout)
    return int(found[1]) if found else None


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        # /usr/bin/java is a link of a link; bin/java lies two below the home.
        yield Path(on_path).resolve().parents[1]
    for folder in filter(Path.is_dir, map(Path, _FOLDERS)):
        for entry in sorted(folder.iterdir()):
            if re.search(r"\b(17|21)\b", entry.name):
                yield entry / "Contents" / "Home" if (entry / "Contents").is_dir() else entry
