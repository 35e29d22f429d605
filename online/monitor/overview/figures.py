"""The Overview's figures of one window, from the counts kept of the log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from online.monitor.fleet import PeakMinute
from online.monitor.requestlog.counts import (
    BINS,
    CELLS,
    OTHER,
    SOURCES,
    TIMED,
    Counts,
    Kind,
    Latencies,
    Requests,
    known_source,
)
from online.monitor.requestlog.sql import ERROR, IMPORTED, bin_ms
from online.monitor.windows import Window
from schemas.http import Source

__all__ = ["HITS", "OTHER", "SOURCES", "Figures", "Quantiles", "read_figures", "read_hot_missed_peak"]

HITS = (Source.PRECOMPUTED.value, Source.CACHED.value)
_LIVE = Source.LIVE.value
_MOST = 50
# The chart has as many colours.
MOST_VERSIONS = 6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of `requests` measured durations."""

    requests: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What the log says of a window.

    Attributes:
        steps: requests by source for each step of the window.
        versions: (version, requests, hits, live), the most frequent first.
        version_steps: requests and hits of each step, of the most frequent versions.
        reasons: (reason, requests by source) of what was not precomputed.
        errors: (code, status, requests).
        latencies: by (source, stage); `hit` stands for precomputed and cached together, `all` for every source.
        latency_steps: by (`hit` or `live`, stage, step).
    """

    steps: Mapping[str, list[int]]
    newest_us: int | None
    undated: int
    imported: int
    versions: list[tuple[str, int, int, int]]
    version_steps: Mapping[str, tuple[list[int], list[int]]]
    reasons: list[tuple[str, dict[str, int]]]
    errors: list[tuple[str, int | None, int]]
    latencies: Mapping[tuple[str, str], Quantiles]
    latency_steps: Mapping[tuple[str, str, int], Quantiles]
    all_peak: PeakMinute | None
    tail_peak: PeakMinute | None

    def requests(self, *sources: str) -> int:
        """Requests of these sources, of all where none is named."""
        return sum(sum(self.steps[source]) for source in sources or self.steps)

    @property
    def hit_rate(self) -> float | None:
        """Precomputed and cached answers as a share of all requests, errors included."""
        total = self.requests()
        return self.requests(*HITS) / total if total else None


def read_figures(counts: Counts, window: Window) -> Figures:
    """Counts what is kept of the window."""
    first = window.start_s // 60
    found = counts.within(first, window.end_s // 60)
    kinds = counts.kinds[: _known(found.requests)]
    by_step = _steps_by_kind(found.requests, window, len(kinds))
    by_kind = list(zip(kinds, map(int, by_step.sum(axis=0)), strict=True))
    answered = [(kind, n) for kind, n in by_kind if kind.source != IMPORTED and n]
    versions = _versions(answered)
    latencies, latency_steps = _quantiles_of(found.latencies, window)
    return Figures(
        steps=_by_source(kinds, by_step),
        newest_us=_newest(found.requests, kinds),
        undated=counts.undated,
        imported=sum(n for kind, n in by_kind if kind.source == IMPORTED),
        versions=versions,
        version_steps={
            version: _version_steps(kinds, by_step, version) for version, *_ in versions[:MOST_VERSIONS]
        },
        reasons=_reasons(answered),
        errors=_errors(answered),
        latencies=latencies,
        latency_steps=latency_steps,
        all_peak=_peak(found.requests, kinds, first, needs_answer),
        tail_peak=_peak(found.requests, kinds, first, is_tail),
    )


def count_hits(counts: Counts, window: Window) -> tuple[int, int]:
    """All requests of the window, and those answered by a precomputed or cached result."""
    found = counts.within(window.start_s // 60, window.end_s // 60).requests
    kinds = counts.kinds[: _known(found)]
    by_kind = _summed(found.kind, found.requests, len(kinds))
    every = sum(n for kind, n in zip(kinds, by_kind, strict=True) if kind.source != IMPORTED)
    return int(every), int(sum(n for kind, n in zip(kinds, by_kind, strict=True) if kind.source in HITS))


def read_hot_missed_peak(counts: Counts, window: Window) -> PeakMinute | None:
    """The busiest minute of what was not precomputed, written-back answers included."""
    return read_peak(counts, window, lambda kind: needs_answer(kind) and kind.source != Source.PRECOMPUTED.value)


def read_peak(counts: Counts, window: Window, counted: Callable[[Kind], bool]) -> PeakMinute | None:
    """The busiest minute of requests of such kinds; None where there are none."""
    found = counts.within(window.start_s // 60, window.end_s // 60).requests
    return _peak(found, counts.kinds[: _known(found)], window.start_s // 60, counted)


def needs_answer(kind: Kind) -> bool:
    """A refused caller's request (4xx) needs no replica; a failed answer (5xx) would have needed one."""
    return kind.source != IMPORTED and not (kind.source == ERROR and 400 <= (kind.status or 0) <= 499)


def is_tail(kind: Kind) -> bool:
    return needs_answer(kind) and kind.source not in HITS


def peaks_by_step(counts: Counts, window: Window, counted: Callable[[Kind], bool]) -> list[int]:
    """Requests of the busiest minute of each step."""
    first, steps = window.start_s // 60, window.steps
    found = counts.within(first, window.end_s // 60).requests
    by_minute = _by_minute(found, counts.kinds[: _known(found)], first, counted, steps * window.range.step_s // 60)
    return [int(n) for n in by_minute.reshape(steps, -1).max(axis=1)]


def quantiles(histograms: Floats) -> list[Quantiles | None]:
    """p50 and p99 by nearest rank, None where there are no answers. Args: histograms: (n, bins) answers by bin."""
    reached = np.cumsum(histograms, axis=1)
    total = reached[:, -1]
    # The first bin at which so many are reached, as many as there are bins before it.
    p50, p99 = ((reached < share * total[:, None]).sum(axis=1) for share in (0.5, 0.99))
    return [
        Quantiles(int(n), bin_ms(int(low)), bin_ms(int(high))) if n else None
        for n, low, high in zip(total, p50, p99, strict=True)
    ]


def _known(requests: Requests) -> int:
    """How many kinds the rows know of: others may be added while they are read."""
    return int(requests.kind.max()) + 1 if len(requests.kind) else 0


def _steps_by_kind(requests: Requests, window: Window, kinds: int) -> Floats:
    """(steps, kinds) requests."""
    step = (requests.minute - window.start_s // 60) // (window.range.step_s // 60)
    place = step.astype(np.int64) * kinds + requests.kind
    return _summed(place, requests.requests, window.steps * kinds).reshape(window.steps, kinds)


def _by_source(kinds: Iterable[Kind], by_step: Floats) -> dict[str, list[int]]:
    found = {source: np.zeros(len(by_step)) for source in SOURCES}
    for number, kind in enumerate(kinds):
        if kind.source != IMPORTED:
            found[known_source(kind.source)] += by_step[:, number]
    return {source: [int(n) for n in values] for source, values in found.items()}


def _newest(requests: Requests, kinds: Sequence[Kind]) -> int | None:
    ours = np.array([kind.source != IMPORTED for kind in kinds], dtype=bool)
    newest = requests.newest_us[ours[requests.kind]]
    return int(newest.max()) if len(newest) else None


def _versions(answered: Iterable[tuple[Kind, int]]) -> list[tuple[str, int, int, int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for kind, n in answered:
        if kind.version is not None:
            of_version = found[kind.version]
            of_version[0] += n
            of_version[1] += n * (kind.source in HITS)
            of_version[2] += n * (kind.source == _LIVE)
    ordered = sorted(found.items(), key=lambda pair: (-pair[1][0], pair[0]))[:_MOST]
    return [(version, requests, hits, live) for version, (requests, hits, live) in ordered]


def _version_steps(kinds: Sequence[Kind], by_step: Floats, version: str) -> tuple[list[int], list[int]]:
    of_version = [number for number, kind in enumerate(kinds) if kind.version == version]
    hits = [number for number in of_version if kinds[number].source in HITS]
    return [int(n) for n in by_step[:, of_version].sum(axis=1)], [int(n) for n in by_step[:, hits].sum(axis=1)]


def _reasons(answered: Iterable[tuple[Kind, int]]) -> list[tuple[str, dict[str, int]]]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for kind, n in answered:
        if kind.source not in (Source.PRECOMPUTED.value, ERROR):
            found[kind.reason or ""][known_source(kind.source)] += n
    return sorted(((reason, dict(by)) for reason, by in found.items()), key=lambda pair: -sum(pair[1].values()))


def _errors(answered: Iterable[tuple[Kind, int]]) -> list[tuple[str, int | None, int]]:
    found: dict[tuple[str, int | None], int] = defaultdict(int)
    for kind, n in answered:
        if kind.source == ERROR:
            found[kind.code or "", kind.status] += n
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0][0], pair[0][1] or 0))
    return [(code, status, n) for (code, status), n in ordered[:_MOST]]


def _peak(
    requests: Requests, kinds: Sequence[Kind], first: int, counted: Callable[[Kind], bool]
) -> PeakMinute | None:
    """The first of the busiest minutes; None where there are no such requests."""
    by_minute = _by_minute(requests, kinds, first, counted)
    if not by_minute.any():
        return None
    place = int(by_minute.argmax())
    return PeakMinute(first + place, int(by_minute[place]))


def _by_minute(
    requests: Requests, kinds: Sequence[Kind], first: int, counted: Callable[[Kind], bool], least: int = 0
) -> Floats:
    """Requests of such kinds by minute, from `first` on, at least so many minutes."""
    is_counted = np.array([counted(kind) for kind in kinds], dtype=np.float64)
    return _summed(requests.minute - first, requests.requests * is_counted[requests.kind], least)


def _summed(places: npt.NDArray[np.integer], numbers: npt.NDArray[Any], least: int) -> Floats:
    """Sums of the numbers by place, for at least so many places."""
    found: npt.NDArray[Any] = np.bincount(places, weights=numbers, minlength=least)
    return found


def _quantiles_of(
    latencies: Latencies, window: Window
) -> tuple[dict[tuple[str, str], Quantiles], dict[tuple[str, str, int], Quantiles]]:
    """Of the window by (source, stage), and of its steps by (`hit` or `live`, stage, step)."""
    step = (latencies.minute - window.start_s // 60) // (window.range.step_s // 60)
    # Of 16 bits: sorted by counting.
    order = np.argsort(step.astype(np.int16), kind="stable")
    edges = np.searchsorted(step[order], np.arange(window.steps + 1))
    cell, answers = latencies.cell[order], latencies.answers[order]
    total: Floats = np.zeros(CELLS)
    by_step: dict[tuple[str, str, int], Quantiles] = {}
    for number in range(window.steps):
        rows = slice(edges[number], edges[number + 1])
        if rows.start == rows.stop:
            continue
        cells = _summed(cell[rows], answers[rows], CELLS)
        total += cells
        groups = {"hit": HITS, _LIVE: (_LIVE,)}
        by_step |= {(*key, number): found for key, found in _by_group_and_stage(cells, groups).items()}
    groups = {**{source: (source,) for source in SOURCES}, "hit": HITS, "all": SOURCES}
    return _by_group_and_stage(total, groups), by_step


def _by_group_and_stage(cells: Floats, groups: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Quantiles]:
    """Args: groups: sources, by the group's name."""
    by_source = cells.reshape(len(SOURCES), -1, BINS)[:, : len(TIMED)]
    found: dict[tuple[str, str], Quantiles] = {}
    for group, sources in groups.items():
        histograms = by_source[[SOURCES.index(source) for source in sources]].sum(axis=0)
        measured = zip(TIMED, quantiles(histograms), strict=True)
        found |= {(group, stage): one for stage, one in measured if one is not None}
    return found
