"""What is kept of a model's log at one moment: immutable, so that pages read it while newer files are folded."""

from dataclasses import dataclass, replace

from online.monitor.requestlog.counts import Counts
from online.monitor.requestlog.folding import Latest

_NOTHING = Counts((), ())


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that cannot be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a window's figures were read from. `waiting`: files that are not yet read."""

    files: int
    streams: int
    set_aside: tuple[SetAside, ...]
    problem: str | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that was read; `reason` says why it could not be."""

    path: str
    hour: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is kept: the counts, the newest rows, newest first, and what they were read from."""

    counts: Counts = _NOTHING
    latest: tuple[Latest, ...] = ()
    files: tuple[ReadFile, ...] = ()
    streams: int = 0

    def coverage(self, start_s: int, end_s: int) -> Coverage:
        first, last = start_s // 3600, (end_s - 1) // 3600
        within = [file for file in self.files if first <= file.hour <= last]
        bad = tuple(SetAside(file.path, file.reason) for file in within if file.reason is not None)
        return Coverage(len(within) - len(bad), self.streams, bad)

    def latest_within(self, start_s: int, end_s: int, limit: int) -> list[Latest]:
        first, last = start_s * 1_000_000, end_s * 1_000_000
        return [row for row in self.latest if first <= int(str(row[0])) < last][:limit]


def behind(coverage: Coverage, waiting: int, problem: str | None = None) -> Coverage:
    return replace(coverage, waiting=waiting, problem=problem)
