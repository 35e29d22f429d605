"""Builds reports of pages and keeps them for a moment, so that reloading never costs more than one build."""

import threading
import time
from collections.abc import Callable

from online.monitor.pages import Page, Report
from online.monitor.sources import Sources
from online.monitor.windows import TimeRange, Window, window_at


class Reports:
    """Thread-safe. Callers of the same page, model and range share one build."""

    def __init__(self, sources: Sources, keep_s: float, clock: Callable[[], float] = time.time) -> None:
        self._sources, self._keep_s, self._clock = sources, keep_s, clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str, str], tuple[float, Window, Report]] = {}
        self._building: dict[tuple[str, str, str], threading.Lock] = {}

    def get(self, page: Page, model: str, chosen: TimeRange) -> tuple[Window, Report]:
        """The report, at most `keep_s` old, and its window."""
        key = (page.slug, model, chosen.key)
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        with building:
            kept = self._kept.get(key)
            if kept is not None and time.monotonic() - kept[0] < self._keep_s:
                return kept[1], kept[2]
            window = window_at(chosen, self._clock())
            report = page.build(self._sources, model, window)
            if not report.facts.get("files_waiting"):  # else the next page knows more
                self._kept[key] = (time.monotonic(), window, report)
            return window, report
