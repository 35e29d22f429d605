"""The Overview's figures of one window, from the counts kept of the log."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from online.monitor.fleet import PeakMinute
from online.monitor.overview.peaks import HITS, is_tail, needs_answer, read_hot_missed_peak, read_peak
from online.monitor.requestlog.counts import BINS, CELLS, TIMED, Counts, cells, tallies
from online.monitor.requestlog.kinds import OTHER, SOURCES, Kind, known_source
from online.monitor.requestlog.rows import Whole
from online.monitor.requestlog.spans import Within
from online.monitor.requestlog.sql import ERROR, IMPORTED, bin_ms
from online.monitor.windows import Window
from schemas.http import Source

__all__ = ["HITS", "OTHER", "SOURCES", "Figures", "Quantiles", "read_figures", "read_hot_missed_peak"]

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
    found = counts.steps(*window.minutes)
    by_step, newest_us = tallies(found)
    kinds = counts.kinds[: len(newest_us)]
    by_kind = list(zip(kinds, map(int, by_step.sum(axis=0)), strict=True))
    answered = [(kind, n) for kind, n in by_kind if kind.source != IMPORTED and n]
    versions = _versions(answered)
    latencies, latency_steps = _quantiles_of(found)
    return Figures(
        steps=_by_source(kinds, by_step),
        newest_us=_newest(newest_us, kinds),
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
        all_peak=read_peak(counts, window, needs_answer),
        tail_peak=read_peak(counts, window, is_tail),
    )


def count_hits(counts: Counts, window: Window) -> tuple[int, int]:
    """All requests of the window, and those answered by a precomputed or cached result."""
    by_kind = list(zip(counts.kinds, tallies(counts.steps(*window.minutes))[0].sum(axis=0), strict=False))
    every = sum(n for kind, n in by_kind if kind.source != IMPORTED)
    return int(every), int(sum(n for kind, n in by_kind if kind.source in HITS))


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


def _by_source(kinds: Iterable[Kind], by_step: Whole) -> dict[str, list[int]]:
    found = {source: np.zeros(len(by_step), np.int64) for source in SOURCES}
    for number, kind in enumerate(kinds):
        if kind.source != IMPORTED:
            found[known_source(kind.source)] += by_step[:, number]
    return {source: [int(n) for n in values] for source, values in found.items()}


def _newest(newest_us: Whole, kinds: Sequence[Kind]) -> int | None:
    ours = [int(one) for one, kind in zip(newest_us, kinds, strict=True) if kind.source != IMPORTED]
    return max(ours, default=0) or None


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


def _version_steps(kinds: Sequence[Kind], by_step: Whole, version: str) -> tuple[list[int], list[int]]:
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


def _quantiles_of(
    steps: Sequence[Within],
) -> tuple[dict[tuple[str, str], Quantiles], dict[tuple[str, str, int], Quantiles]]:
    """Of all steps together by (source, stage), and of each by (`hit` or `live`, stage, step)."""
    by_step = {
        (*key, number): found for number, step in enumerate(steps) for key, found in step.once(_of_step).items()
    }
    found = [step.once(cells) for step in steps]
    cell = np.concatenate([one.cell for one in found])
    total = np.bincount(cell, weights=np.concatenate([one.answers for one in found]), minlength=CELLS)
    groups = {**{source: (source,) for source in SOURCES}, "hit": HITS, "all": SOURCES}
    return _by_group_and_stage(total, groups), by_step


def _of_step(step: Within) -> dict[tuple[str, str], Quantiles]:
    """By (`hit` or `live`, stage)."""
    found = step.once(cells)
    if not len(found.cell):
        return {}
    dense = np.bincount(found.cell, weights=found.answers, minlength=CELLS)
    return _by_group_and_stage(dense, {"hit": HITS, _LIVE: (_LIVE,)})


def _by_group_and_stage(
    dense: npt.NDArray[Any], groups: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], Quantiles]:
    """Args: groups: sources, by the group's name."""
    by_source = dense.reshape(len(SOURCES), -1, BINS)[:, : len(TIMED)]
    found: dict[tuple[str, str], Quantiles] = {}
    for group, sources in groups.items():
        histograms = by_source[[SOURCES.index(source) for source in sources]].sum(axis=0)
        measured = zip(TIMED, quantiles(histograms), strict=True)
        found |= {(group, stage): one for stage, one in measured if one is not None}
    return found
