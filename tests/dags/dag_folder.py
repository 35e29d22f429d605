"""Where the DAGs lie, and copies of them for tests."""

import re
import shutil
from pathlib import Path

from infra.local.settings import HOME

DAGS = HOME / "dags"


def copy_dags(folder: Path) -> None:
    """The DAGs, with less patience between the tries of a step."""
    shutil.copytree(DAGS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r"RETRY_DELAY = .*", "RETRY_DELAY = timedelta(seconds=1)", text), encoding="utf-8")
