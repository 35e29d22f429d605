"""How long the request log is kept: whole days (UTC) go when they are old, with what was set aside of them.

So do the hits compared with live, and the results of drift.
"""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from batch_scoring.hotset.log_files import ASIDE
from batch_scoring.requestlog.hours import WORKING, locked
from batch_scoring.requestlog.turns import Turn
from schemas.names import DRIFT, PARITY, requests_model_path
from schemas.retention import EVERYTHING, RETENTION_FILE, Retention
from schemas.whole_files import write_whole


@dataclass(frozen=True, slots=True)
class OldDay:
    """A day's folder, of the log or of what is made from it."""

    folder: Path
    day: date
    files: int
    size_bytes: int


def old_days(root: Path, model: str, days: int, now: datetime) -> list[OldDay]:
    """The days that ended `days` days ago or earlier, oldest first."""
    first_kept = (now.astimezone(UTC) - timedelta(days=days)).date()
    return sorted(_old(root, model, first_kept), key=lambda old: (old.day, str(old.folder)))


def _old(root: Path, model: str, first_kept: date) -> Iterator[OldDay]:
    requests, like_it = requests_model_path(model), [f"{name}/model={model}" for name in (PARITY, DRIFT)]
    for base in (root / requests, root / ASIDE / requests, *(root / path for path in like_it)):
        for folder in base.glob("date=*"):
            try:
                day = date.fromisoformat(folder.name.removeprefix("date="))
            except ValueError:
                continue
            if day < first_kept:
                sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
                yield OldDay(folder, day, len(sizes), sum(sizes))


def remove_days(root: Path, model: str, old: list[OldDay], *, with_figures: bool = False) -> None:
    """Deletes them: each leaves the log in one step, so that no reader sees a part of a day.

    Args:
        with_figures: the site forgets its figures of these days, which it otherwise keeps.

    Raises NotPossible where another process is at this log.
    """
    with locked(root, model):
        Turn.begin(root, model)
        bin_folder = root / WORKING / f"removed-{model}"
        bin_folder.mkdir(parents=True, exist_ok=True)
        _say(root / requests_model_path(model), old, with_figures)
        for day in old:
            if day.folder.exists():
                day.folder.rename(bin_folder / uuid.uuid4().hex)
        shutil.rmtree(bin_folder)


def _say(log: Path, old: list[OldDay], with_figures: bool) -> None:
    """Before anything goes, so that whoever misses it knows why."""
    gone = [one.day for one in old if one.folder.parent == log]
    if not gone:
        return
    place = log / RETENTION_FILE
    try:
        said = Retention.read(place.read_bytes())
    except (FileNotFoundError, ValueError):
        said = EVERYTHING
    first = max(said.log_from, max(gone) + timedelta(days=1))
    write_whole(place, Retention(first, first if with_figures else said.figures_from).to_bytes())
