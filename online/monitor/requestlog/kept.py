"""Figures kept of one model's request log: each file is read once, when it first shows up, and folded into counts.

`refresh` brings them up to date with the files and the unrotated streams of a window, `reading` does so for as
long as a page can wait and then shows what there is. A file that cannot be read is set aside with the reason.

Rows are never counted twice, nor missed for a moment: a stream's rows of an hour go when that hour has the Parquet
file which carries the stream's name, or a compacted one that has its rows; files that a compaction has replaced go
in the same moment as the new ones come, and are not read again where the new ones have as many rows.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from online.monitor.requestlog.counts import Counts
from online.monitor.requestlog.files import Listing, LogFolder, first_hour
from online.monitor.requestlog.folding import Folding, Latest
from online.monitor.requestlog.latest import LatestRows
from online.monitor.requestlog.parts import Parts
from online.monitor.requestlog.slots import FINE_HOURS
from online.monitor.requestlog.snapshot import Coverage, SetAside, Snapshot, behind
from online.monitor.requestlog.spans import Spans
from online.monitor.requestlog.stored import StoredDays
from online.monitor.requestlog.stream_parts import StreamParts
from online.monitor.requestlog.streams import StreamFolder

__all__ = ["FINE_HOURS", "Coverage", "KeptLog", "SetAside"]

# What a page waits for newer rows, and for the first ones after the start.
PATIENCE_S = 0.2
FIRST_PATIENCE_S = 2.0
# A kill costs reading again what came since.
SAVE_EVERY_S = 60.0

logger = logging.getLogger(__name__)


class KeptLog:
    """One model's log. Close it when done. Callers of `refresh` hold `lock`; `reading` needs none."""

    def __init__(
        self,
        folder: LogFolder,
        streams: StreamFolder | None,
        threads: int,
        memory_mb: int,
        stored: StoredDays | None = None,
    ) -> None:
        """Args: stored: where figures outlive this process; None for nowhere."""
        self.lock = threading.RLock()
        self._stored, self._is_adopted, self._saved_at_s = stored, stored is None, time.monotonic()
        self._folding = Folding(folder, threads, memory_mb)
        self._folder = folder
        self._parts = Parts(folder, self._folding)
        self._streams = StreamParts(streams, self._folding)
        self._latest = LatestRows(self._folding)
        self._spans = Spans()
        self._snapshot = Snapshot()
        self._complete: set[int] = set()

    def close(self) -> None:
        """Ends a query that is running, keeps what is new, then ends the database."""
        self._folding.interrupt()
        with self.lock:
            self.save(at_least_s=0.0)
            self._folding.close()

    def save(self, at_least_s: float = SAVE_EVERY_S) -> None:
        """Keeps on disk what has changed, where the last time was so long ago. A full disk is told in the log."""
        if self._stored is None or time.monotonic() - self._saved_at_s < at_least_s:
            return
        self._saved_at_s = time.monotonic()
        with self.lock:
            changed = self._parts.take_changed()
        for day, parts in changed.items():
            try:
                self._stored.save(day, parts, self._folding.kinds.all)
            except OSError as error:
                logger.warning("figures could not be kept on disk", extra={"error": type(error).__name__})
                self._parts.mark_changed(day)

    def refresh(self, start_s: int, end_s: int, now_s: int, budget_s: float | None = None) -> Coverage:
        """Takes in what is new in the window; the log's own trouble is told in the coverage, never raised.

        Args:
            budget_s: reading stops after so long, and goes on the next time; None reads all.

        Raises:
            duckdb.InterruptException, duckdb.OutOfMemoryException
        """
        until = None if budget_s is None else time.monotonic() + budget_s
        if self._stored is not None and not self._is_adopted:
            self._parts.adopt(self._stored.load(self._folding.kinds))
            self._is_adopted = True
        self._parts.age(now_s // 3600)
        # Streams first: one that is rotated in between is then found among the files, and its copy dropped.
        self._streams.read_new()
        problem, waiting = None, 0
        try:
            listing = self._folder.within(start_s, end_s)
        except OSError as error:
            logger.warning("the request log cannot be listed", exc_info=True)
            problem = f"the request log cannot be listed ({type(error).__name__})"
        else:
            self._parts.forget_before(first_hour(listing.retention.figures_from))
            waiting = self._parts.take(listing, (start_s // 3600, (end_s - 1) // 3600), now_s // 3600, until)
            self._supersede(listing)
        self._publish()
        if not waiting and problem is None:
            self._complete.add(end_s - start_s)
        return behind(self._snapshot.coverage(start_s, end_s), waiting, problem)

    @contextmanager
    def reading(self, start_s: int, end_s: int, now_s: int) -> Iterator[tuple[Counts, Coverage, Snapshot]]:
        """What is kept, as new as could be had in time, and what of the window it covers.

        It does not change: what is counted meanwhile is in the next one.
        """
        patience_s = PATIENCE_S if end_s - start_s in self._complete else FIRST_PATIENCE_S
        coverage = self._refreshed(start_s, end_s, now_s, patience_s)
        snapshot = self._snapshot
        yield snapshot.counts, coverage or behind(snapshot.coverage(start_s, end_s), 1), snapshot

    @property
    def counts(self) -> Counts:
        """As of the last refresh."""
        return self._snapshot.counts

    def latest(self, start_s: int, end_s: int, limit: int) -> list[Latest]:
        """The newest rows, newest first: time in microseconds, then `sql.LATEST_COLUMNS`."""
        return self._snapshot.latest_within(start_s, end_s, limit)

    def _refreshed(self, start_s: int, end_s: int, now_s: int, patience_s: float) -> Coverage | None:
        """None where another refresh takes longer than the patience."""
        begun = time.monotonic()
        if not self.lock.acquire(timeout=patience_s):
            return None
        try:
            return self.refresh(start_s, end_s, now_s, max(0.0, patience_s - (time.monotonic() - begun)))
        finally:
            self.lock.release()

    def _supersede(self, listing: Listing) -> None:
        """Drops the streams' rows of hours that are in Parquet already."""
        names: dict[int, set[str]] = defaultdict(set)
        for file in listing.files:
            if self._parts.is_good(file):
                names[file.hour].add(file.name)
        for hour, gone in listing.compacted.items():
            names[hour] |= gone
        self._streams.supersede(names)

    def _publish(self) -> None:
        """Pages that begin from now on see what is kept now."""
        latest = self._latest.of(self._parts.good_by_hour(), self._streams.latest())
        if not (self._parts.is_changed or self._streams.is_changed) and latest == self._snapshot.latest:
            return
        counts = Counts.of([*self._parts.parts(), *self._streams.parts()], self._folding.kinds, self._spans)
        self._snapshot = Snapshot(counts, latest, self._parts.read_files(), self._streams.count)
        self._parts.is_changed = self._streams.is_changed = False
