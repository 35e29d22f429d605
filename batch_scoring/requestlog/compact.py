"""Compaction of the request log: the many small files of a closed hour become few, and readers see every row once.

The invariant: whoever lists the folder of an hour finds each of its rows in exactly one file, at any moment and
whenever the compaction is killed. One step makes it so. The compacted files are written into a folder of their
own that no reader lists, together with links to the files that stay as they are; then this folder and the hour's
change places, atomically (`exchange.py`). What was the hour's folder is then nobody's, and is emptied:

    requests/model=…/date=…/hour=…             what readers list
    requests-compacting/model=…/date=…/hour=…  before the exchange copies, after it the old files
    requests-compacting/model=…/date=…/hour=….json  the mark of the exchange that is about to be

A run that finds a staged folder asks whether the hour carries the mark of the journal. If not, the exchange did
not happen, and the staged copies are deleted. If so, what is staged is the old: files whose rows were compacted
are deleted, and any other is moved to the hour. That is one which a writer put there in the very moment of the
exchange, hours late as it was: it alone may be seen, be gone for a moment, and be seen again.

Writers name files by their stream, so that a stream that is converted again replaces its file. `_compacted.json`
therefore keeps the names of all files that were compacted, and writers do not write those again. A reader that
listed an hour before the exchange and opens a file after it gets "no such file", never wrong rows: it lists again.
"""

import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from batch_scoring.files import file_system
from batch_scoring.hotset.log_files import LogFiles
from batch_scoring.requestlog.exchange import exchange, make_durable
from batch_scoring.requestlog.hours import Hour, compacted, hours_of, locked, parquet_files
from batch_scoring.requestlog.merge import Damaged, SameSchema, by_schema, merge
from batch_scoring.requestlog.turns import Turn
from schemas.names import COMPACTED_FILE
from schemas.whole_files import staged_of, write_whole

LOG = logging.getLogger(__name__)
# A file of this share of the greatest size is left as it is: it would be copied for little.
_LARGE_SHARE = 0.5


class Unfinished(Exception):
    """The work on an hour failed. What is done stays done; the same call goes on from there."""


@dataclass(slots=True)
class Compacted:
    """What was done. `files_before` and `files_after` are of the hours that were compacted."""

    hours: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    aside: int = 0

    def __add__(self, other: "Compacted") -> "Compacted":
        return Compacted(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


Work = Callable[[Iterable[Hour]], Iterator[Compacted]]
Spread = Callable[[Work, Sequence[Hour]], Iterable[Compacted]]


def one_by_one(work: Work, hours: Sequence[Hour]) -> Iterable[Compacted]:
    """In this process, as they come."""
    return work(hours)


def compact_model(
    root: Path,
    model: str,
    now: datetime,
    closed_for: timedelta,
    max_bytes: int,
    spread: Spread = one_by_one,
) -> Compacted:
    """Compacts the hours of a model that ended so long ago; again, it does nothing.

    Args:
        spread: has the work done for hours, anywhere from where `root` is the same folder; not called for none.

    Raises:
        NotPossible: another process is at it.
        OSError: the disk is full, or its file system cannot exchange folders; readers see what they saw before.
        Unfinished: `spread` says so.
    """
    with locked(root, model):
        hours = [hour for hour in hours_of(root, model) if hour.end + closed_for <= now]
        hours = [hour for hour in hours if _is_open(hour, max_bytes)]
        if not hours:
            return Compacted()
        LOG.info("%s: %d hours to look after", model, len(hours))
        work = partial(_compact_hours, Turn.begin(root, model), max_bytes)
        return sum(spread(work, hours), Compacted())


def _is_open(hour: Hour, max_bytes: int) -> bool:
    """Whether there may be something to do: quick to say, since most hours are done with."""
    if hour.staged.is_dir() or hour.journal.exists() or staged_of(hour.journal):
        return True
    _, gone = compacted(hour.live)
    return len(_small(hour, max_bytes)) > 1 or any(path.name in gone for path in parquet_files(hour.live))


def _small(hour: Hour, max_bytes: int) -> list[Path]:
    return [path for path in parquet_files(hour.live) if path.stat().st_size < max_bytes * _LARGE_SHARE]


def _compact_hours(turn: Turn, max_bytes: int, hours: Iterable[Hour]) -> Iterator[Compacted]:
    for hour in hours:
        done = Compacted()
        with turn.at(hour):
            _compact_hour(hour, max_bytes, done)
        if done.hours:
            LOG.info("%s compacted", hour.name)
        yield done


def _compact_hour(hour: Hour, max_bytes: int, done: Compacted) -> None:
    recover(hour)
    done.aside += _drop_repeated(hour)
    while True:
        try:
            groups = _worth_it(hour, max_bytes)
            if groups:
                _swap(hour, groups, max_bytes, done)
        except Damaged as damage:
            _set_aside(hour, damage.path, damage.reason)
            done.aside += 1
        else:
            return


def _worth_it(hour: Hour, max_bytes: int) -> list[SameSchema]:
    """Small files, by schema, of which there are several."""
    return [group for group in by_schema(_small(hour, max_bytes)) if len(group.paths) > 1]


def _swap(hour: Hour, groups: list[SameSchema], max_bytes: int, done: Compacted) -> None:
    mark = uuid.uuid4().hex
    hour.staged.mkdir(parents=True)
    merged = {path.name for group in groups for path in group.paths}
    rows = 0
    for number, group in enumerate(groups):
        expected = sum(pq.read_metadata(path).num_rows for path in group.paths)
        written = merge(group, hour.staged, f"compact-{mark[:12]}-{number}", max_bytes)
        if written != expected:
            raise RuntimeError(f"{hour.name}: {expected:,} rows became {written:,}; nothing has been changed")
        rows += written
    _, earlier = compacted(hour.live)
    compacted_files = json.dumps({"id": mark, "files": sorted(merged | earlier)})
    write_whole(hour.staged / COMPACTED_FILE, compacted_files.encode(), is_durable=True)
    write_whole(hour.journal, json.dumps({"id": mark}).encode(), is_durable=True)
    shutil.copymode(hour.live, hour.staged)
    # As late as can be, so that a file that came meanwhile is among them.
    before = parquet_files(hour.live)
    for path in before:
        if path.name not in merged:
            os.link(path, hour.staged / path.name)
    make_durable(hour.staged)
    exchange(hour.staged, hour.live)
    make_durable(hour.live.parent)
    _finish(hour)
    done.hours, done.rows = done.hours + 1, done.rows + rows
    done.files_before += len(before)
    done.files_after += len(parquet_files(hour.live))


def recover(hour: Hour) -> None:
    """Ends what a run that was killed began, whichever way it has to end."""
    if hour.staged.is_dir():
        if _is_exchanged(hour):
            _finish(hour)
            return
        shutil.rmtree(hour.staged)
    hour.journal.unlink(missing_ok=True)
    for unfinished in staged_of(hour.journal):
        unfinished.unlink()


def _is_exchanged(hour: Hour) -> bool:
    try:
        mark = json.loads(hour.journal.read_bytes())["id"]
    except FileNotFoundError:
        return False
    return bool(mark == compacted(hour.live)[0])


def _finish(hour: Hour) -> None:
    """Empties the old folder. A file that is neither compacted nor linked came while the others were merged."""
    _, gone = compacted(hour.live)
    for path in list(hour.staged.iterdir()):
        kept = hour.live / path.name
        # Hidden is what a writer had not finished: its last step fails in the new folder, and it begins anew.
        if path.name[0] in "._" or path.name in gone or (kept.exists() and kept.samefile(path)):
            path.unlink()
        else:
            path.replace(kept)
    hour.staged.rmdir()
    hour.journal.unlink(missing_ok=True)
    with suppress(OSError):  # other hours of this day may be there
        hour.staged.parent.rmdir()


def _drop_repeated(hour: Hour) -> int:
    """Sets files aside whose rows are in a compacted file already: a writer that knew nothing of it wrote them."""
    _, gone = compacted(hour.live)
    repeated = [path for path in parquet_files(hour.live) if path.name in gone]
    for path in repeated:
        _set_aside(hour, path, "its rows are in a compacted file already")
    return len(repeated)


def _set_aside(hour: Hour, path: Path, reason: str) -> None:
    if hour.staged.is_dir():
        shutil.rmtree(hour.staged)
    LogFiles(str(hour.root)).set_aside(file_system(str(hour.root))[0], str(path), reason)
