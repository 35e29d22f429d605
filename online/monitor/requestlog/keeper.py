"""Keeps the figures of all logs up to date in the background, so that a page finds next to nothing to read."""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import duckdb

from online.monitor.windows import RANGES, window_at

PERIOD_S = 5.0
# A page that comes meanwhile waits so long at most, or for the chunk of files that is being read.
_SLICE_S = 0.2
_PAUSE_S = 0.01

logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """`waiting`: files that are not yet read."""

    @property
    def waiting(self) -> int: ...


class Log(Protocol):
    """What is read ahead: `refresh` stops after its budget, and goes on the next time; `save` comes between."""

    @property
    def lock(self) -> AbstractContextManager[bool]: ...

    def refresh(self, start_s: int, end_s: int, now_s: int, budget_s: float | None = None) -> Waiting: ...

    def save(self) -> None: ...


def keep(logs: Sequence[Log], stop: threading.Event) -> None:
    """Runs until `stop` is set."""
    while not stop.is_set():
        for log in logs:
            try:
                _bring_up_to_date(log, stop)
            except (duckdb.Error, OSError, ValueError):
                # The page that needs these rows reads them again and tells its reader. Arrow raises ValueErrors.
                logger.warning("the request log could not be read ahead", exc_info=True)
        stop.wait(PERIOD_S)


def _bring_up_to_date(log: Log, stop: threading.Event) -> None:
    """Reads the log of the longest range, newest hours first, in slices between which pages have their turn."""
    waiting = 1
    while waiting and not stop.is_set():
        window = window_at(RANGES[-1], time.time())
        with log.lock:
            waiting = log.refresh(window.start_s, window.end_s, window.now_s, _SLICE_S).waiting
        log.save()
        stop.wait(_PAUSE_S)
