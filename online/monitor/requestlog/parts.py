"""Which Parquet files are read, and what is kept of each part of the log. Not thread-safe.

A part is what was folded together: a file of a young hour, or several of an hour that is over. When a file goes or
changes, its whole part is read again without it, and the old part goes as the new one comes.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import duckdb
import pyarrow as pa

from online.monitor.requestlog.files import Listing, LogFile, LogFolder
from online.monitor.requestlog.folding import Folding
from online.monitor.requestlog.rows import Part, merged
from online.monitor.requestlog.slots import chunks, is_young, slot_minutes
from online.monitor.requestlog.snapshot import ReadFile
from online.monitor.requestlog.stored import StoredPart

KEPT_HOURS = 30 * 24
_READ_ERRORS = (duckdb.Error, pa.ArrowInvalid, OSError)

logger = logging.getLogger(__name__)


class _Vanished(Exception):
    """A file has gone since it was listed: the next listing tells what took its place."""


@dataclass(slots=True)
class _Known:
    file: LogFile
    part: int
    reason: str | None = None


class Parts:
    """`is_changed` is set by what changes figures, and reset by the owner."""

    def __init__(self, folder: LogFolder, folding: Folding) -> None:
        self.is_changed = False
        self._folder, self._folding = folder, folding
        self._known: dict[str, _Known] = {}
        self._parts: dict[int, Part] = {}
        self._slots: dict[int, int] = {}
        self._changed_days: set[int] = set()
        self._ids = count(1)
        self._hour = 0

    def parts(self) -> Iterator[Part]:
        yield from self._parts.values()

    def is_good(self, file: LogFile) -> bool:
        known = self._known.get(file.path)
        return known is not None and known.file == file and known.reason is None

    def read_files(self) -> tuple[ReadFile, ...]:
        return tuple(ReadFile(one.file.path, one.file.hour, one.reason) for one in self._known.values())

    def good_by_hour(self) -> dict[int, list[LogFile]]:
        found: dict[int, list[LogFile]] = defaultdict(list)
        for one in self._known.values():
            if one.reason is None:
                found[one.file.hour].append(one.file)
        return found

    def adopt(self, stored: Iterable[StoredPart]) -> None:
        """Goes on from what was kept on disk; for the beginning."""
        for one in stored:
            number = next(self._ids)
            self._known |= {file.path: _Known(file, number) for file in one.files}
            self._parts[number], self._slots[number] = one.part, one.slot_minutes
            self.is_changed = True

    def take_changed(self) -> dict[int, list[StoredPart]]:
        """By day since the epoch, all parts of the days that have changed since the last call."""
        days: dict[int, list[StoredPart]] = {day: [] for day in self._changed_days}
        files: dict[int, list[LogFile]] = defaultdict(list)
        for known in self._known.values():
            if known.part in self._parts and known.file.hour // 24 in days:
                files[known.part].append(known.file)
        for number, several in files.items():
            stored = StoredPart(tuple(several), self._slots[number], self._parts[number])
            days[several[0].hour // 24].append(stored)
        self._changed_days = set()
        return days

    def mark_changed(self, day: int) -> None:
        self._changed_days.add(day)

    def take(self, listing: Listing, hours: tuple[int, int], now_hour: int, until: float | None) -> int:
        """Reads what is new in these hours, first and last included, newest first.

        Args:
            until: of the monotonic clock; None for as long as it takes.

        Returns:
            how many files are still to be read.

        Raises:
            duckdb.InterruptException, duckdb.OutOfMemoryException
        """
        present = {file.path: file for file in listing.files}
        gone: dict[int, list[_Known]] = defaultdict(list)
        for known in self._known.values():
            is_asked = hours[0] <= known.file.hour <= hours[1]
            if is_asked and _is_gone(known.file, present.get(known.file.path), listing):
                gone[known.file.hour].append(known)
        fresh: dict[int, list[LogFile]] = defaultdict(list)
        for file in listing.files:
            known_as = self._known.get(file.path)
            if known_as is None or known_as.file != file:
                fresh[file.hour].append(file)
        for hour in sorted(gone, reverse=True):
            if _is_late(until):
                break
            self._replace(hour, gone.pop(hour), fresh.pop(hour, []), listing.compacted, now_hour)
        added = [file for hour in sorted(fresh, reverse=True) if hour not in gone for file in fresh[hour]]
        read = 0
        for chunk in chunks(added):
            if _is_late(until):
                break
            self._add(chunk, now_hour)
            read += len(chunk)
        return len(added) - read + sum(len(fresh[hour]) or 1 for hour in gone)

    def age(self, now_hour: int) -> None:
        """Once an hour: what is too old for any range goes, what is over is merged, and gets coarse later."""
        if now_hour == self._hour:
            return
        self._hour = now_hour
        self.forget_before(now_hour - KEPT_HOURS)
        by_hour: dict[int, list[_Known]] = defaultdict(list)
        for known in self._known.values():
            by_hour[known.file.hour].append(known)
        for hour, several in by_hour.items():
            slot = slot_minutes(hour, now_hour)
            parts = {one.part for one in several if one.part in self._parts}
            is_over = not is_young(hour, now_hour)
            if is_over and (len(parts) > 1 or any(self._slots[part] < slot for part in parts)):
                self._merge(several, slot)

    def forget_before(self, hour: int) -> None:
        self._forget([known for known in self._known.values() if known.file.hour < hour])

    def _merge(self, several: Sequence[_Known], slot: int) -> None:
        parts = {one.part for one in several}
        folded = [self._parts.pop(part) for part in parts if part in self._parts]
        new = next(self._ids)
        self._put({new: merged(folded, slot)}, slot, several)
        for part in parts:
            self._slots.pop(part, None)
        for one in several:
            one.part = new

    def _replace(
        self,
        hour: int,
        gone: list[_Known],
        fresh: list[LogFile],
        compacted: Mapping[int, frozenset[str]],
        now_hour: int,
    ) -> None:
        """Takes new files of an hour and drops those that have gone, in one step."""
        paths, parts = {one.file.path for one in gone}, {one.part for one in gone}
        beside = [one for one in self._known.values() if one.part in parts and one.file.path not in paths]
        files = [*fresh, *(one.file for one in beside)]
        slot = slot_minutes(hour, now_hour)
        is_compacted = fresh and all(one.file.name in compacted.get(hour, ()) and not one.reason for one in gone)
        if is_compacted and self._have_rows(files, parts):
            # Compaction changed the files and not a row: what is kept of them stays.
            folded = merged([self._parts[part] for part in parts], slot)
            new = next(self._ids)
            known, found = {file.path: _Known(file, new) for file in files}, {new: folded}
        else:
            try:
                known, found = self._fold(files, slot, is_one=not is_young(hour, now_hour))
            except _Vanished:
                return
        self._forget([*gone, *beside])
        self._known |= known
        self._put(found, slot, known.values())

    def _have_rows(self, files: Sequence[LogFile], parts: set[int]) -> bool:
        """Whether the files have as many rows as the parts were folded from."""
        try:
            return sum(self._folder.rows(file) for file in files) == sum(self._parts[part].rows for part in parts)
        except (OSError, pa.ArrowInvalid):
            return False

    def _add(self, files: list[LogFile], now_hour: int) -> None:
        """Reads a chunk; each hour that is over becomes one part."""
        slots = {file.path: slot_minutes(file.hour, now_hour) for file in files}
        for slot in sorted(set(slots.values())):
            some = [file for file in files if slots[file.path] == slot]
            over = [file for file in some if not is_young(file.hour, now_hour)]
            young = [file for file in some if is_young(file.hour, now_hour)]
            for group, is_one in ((over, True), (young, False)):
                if group:
                    try:
                        known, folded = self._fold(group, slot, is_one)
                    except _Vanished:
                        continue
                    self._known |= known
                    self._put(folded, slot, known.values())

    def _fold(
        self, files: Sequence[LogFile], slot: int, is_one: bool
    ) -> tuple[dict[str, _Known], dict[int, Part]]:
        """Reads files together; where that fails, halves them until what cannot be read stands alone.

        Args:
            is_one: files of an hour become one part.
        """
        if not files:
            return {}, {}
        ids: dict[object, int] = defaultdict(lambda: next(self._ids))
        known = {file.path: _Known(file, ids[file.hour if is_one else file.path]) for file in files}
        try:
            return known, self._folding.files({path: one.part for path, one in known.items()}, slot)
        except _READ_ERRORS as error:
            if isinstance(error, duckdb.InterruptException | duckdb.OutOfMemoryException):
                raise
            if len(files) == 1:
                return self._set_aside(known[files[0].path], error), {}
        middle = len(files) // 2
        first = self._fold(files[:middle], slot, is_one)
        second = self._fold(files[middle:], slot, is_one)
        return first[0] | second[0], first[1] | second[1]

    def _set_aside(self, known: _Known, error: Exception) -> dict[str, _Known]:
        if not self._folder.exists(known.file):
            raise _Vanished
        known.reason = _in_words(error, known.file.path)
        logger.warning(
            "set aside a file of the request log", extra={"path": known.file.path, "reason": known.reason}
        )
        return {known.file.path: known}

    def _put(self, folded: dict[int, Part], slot: int, several: Iterable[_Known]) -> None:
        self._parts |= folded
        self._slots |= dict.fromkeys(folded, slot)
        self._changed_days |= {one.file.hour // 24 for one in several}
        self.is_changed = True

    def _forget(self, several: Sequence[_Known]) -> None:
        for one in several:
            self._known.pop(one.file.path, None)
            self._parts.pop(one.part, None)
            self._slots.pop(one.part, None)
            self._changed_days.add(one.file.hour // 24)
            self.is_changed = True


def _is_gone(known: LogFile, present: LogFile | None, listing: Listing) -> bool:
    """Or changed. What retention deleted is as good as there: its figures stay."""
    return present != known if present is not None else not listing.is_kept_of(known.hour)


def _is_late(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


def _in_words(error: Exception, path: str) -> str:
    """The first line of the error, without the path, which stands beside it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].replace(path, "file")[:200]
