"""What the nights chose and what came of it: their reports, when each generation was live, the log since then."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from online.monitor.requestlog.counts import Counts, tally
from online.monitor.requestlog.kinds import SOURCES, known_source
from online.monitor.requestlog.sql import ERROR, IMPORTED
from online.monitor.windows import utc
from schemas.history import Change, switches
from schemas.hotset_report import HotSetReport
from schemas.http import Source
from schemas.kept_files import KeptFiles
from schemas.names import HOTSET_REPORT_FILE
from schemas.run_folders import read_in_runs

logger = logging.getLogger(__name__)

SHOWN_NIGHTS = 14


@dataclass(frozen=True, slots=True)
class Reports:
    """Newest first. `unreadable`: generations whose report cannot be read; `problem`: why none could be."""

    nights: tuple[HotSetReport, ...] = ()
    unreadable: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """From when a generation was live until another was, or until now; seconds since the epoch."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Realised:
    """What the log says of the time that a generation was live: answers, by the source that gave them.

    `seconds` of it are within the kept log; `since` is when it first went live.
    """

    since: datetime
    seconds: float
    answers: int
    precomputed: int
    cached: int

    @property
    def precomputed_share(self) -> float | None:
        return self.precomputed / self.answers if self.answers else None

    @property
    def hit_share(self) -> float | None:
        return (self.precomputed + self.cached) / self.answers if self.answers else None


def read_reports(data_url: str, model: str, kept: KeptFiles | None = None) -> Reports:
    """Never raises for the data root or for what lies there."""
    try:
        found = read_in_runs(data_url, model, HOTSET_REPORT_FILE, _read, kept)
    except OSError as error:
        logger.warning("the runs cannot be read", extra={"error": type(error).__name__})
        return Reports(problem=f"The run folders cannot be read ({type(error).__name__})")
    nights = [night for night in found.values() if night is not None]
    unreadable = tuple(generation for generation, night in found.items() if night is None)
    return Reports(tuple(nights[:SHOWN_NIGHTS]), unreadable)


def _read(raw: bytes) -> HotSetReport | None:
    """None where it is no report that can be read."""
    try:
        return HotSetReport.read(raw)
    except ValueError:
        return None


def live_spans(changes: Sequence[Change], now_s: float) -> dict[str, list[Span]]:
    """By generation, oldest first. Args: changes, newest first."""
    found: dict[str, list[Span]] = {}
    end_s = now_s
    for switch in switches(list(changes)):
        start_s = min(switch.at.timestamp(), end_s)
        if switch.generation is not None:
            found.setdefault(switch.generation, []).insert(0, Span(start_s, end_s))
        end_s = start_s
    return found


def realised(counts: Counts, spans: Sequence[Span], kept_from_s: float) -> Realised | None:
    """Whole minutes of the spans, as far as the kept log reaches back; None without any."""
    seconds, answers = 0, dict.fromkeys(SOURCES, 0)
    for span in spans:
        first, last = ceil(max(span.start_s, kept_from_s) / 60), int(span.end_s // 60)
        if first >= last:
            continue
        seconds += 60 * (last - first)
        by_kind = counts.within(first, last).once(tally).requests
        for kind, requests in zip(counts.kinds, by_kind, strict=False):
            if kind.source != IMPORTED:
                answers[known_source(kind.source)] += int(requests)
    if not seconds:
        return None
    total = sum(requests for source, requests in answers.items() if source != ERROR)
    return Realised(
        utc(spans[0].start_s), seconds, total, answers[Source.PRECOMPUTED.value], answers[Source.CACHED.value]
    )
