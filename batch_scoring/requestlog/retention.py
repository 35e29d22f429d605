"""How long the request log is kept: whole days (UTC), and what was set aside of them, go when they are old."""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from batch_scoring.hotset.log_files import ASIDE
from batch_scoring.requestlog.hours import WORKING, locked
from schemas.names import requests_model_path


@dataclass(frozen=True, slots=True)
class OldDay:
    """A day's folder, below the log or set aside."""

    folder: Path
    day: date
    files: int
    size_bytes: int


def old_days(root: Path, model: str, days: int, now: datetime) -> list[OldDay]:
    """The days that ended `days` days ago or earlier, oldest first."""
    first_kept = (now.astimezone(UTC) - timedelta(days=days)).date()
    return sorted(_old(root, model, first_kept), key=lambda old: (old.day, str(old.folder)))


def _old(root: Path, model: str, first_kept: date) -> Iterator[OldDay]:
    for base in (root, root / ASIDE):
        for folder in (base / requests_model_path(model)).glob("date=*"):
            try:
                day = date.fromisoformat(folder.name.removeprefix("date="))
            except ValueError:
                continue
            if day < first_kept:
                sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
                yield OldDay(folder, day, len(sizes), sum(sizes))


def remove_days(root: Path, model: str, old: list[OldDay]) -> None:
    """Deletes them: each leaves the log in one step, so that no reader sees a part of a day.

    Raises NotPossible where another process is at this log.
    """
    with locked(root, model):
        bin_folder = root / WORKING / f"removed-{model}"
        bin_folder.mkdir(parents=True, exist_ok=True)
        for day in old:
            if day.folder.exists():
                day.folder.rename(bin_folder / uuid.uuid4().hex)
        shutil.rmtree(bin_folder)
