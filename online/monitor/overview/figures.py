"""The Overview's figures of one window, from the figures kept of the log."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb
import numpy as np

from online.monitor.fleet import PeakMinute
from online.monitor.requestlog.sql import ERROR, IMPORTED, bin_ms
from online.monitor.windows import Window
from schemas.http import Source

HITS = (Source.PRECOMPUTED.value, Source.CACHED.value)
OTHER = "other"
# In the order in which they are stacked: hits first, so that the hit rate is a height of the chart.
SOURCES = (*(source.value for source in Source), OTHER, ERROR)

_SPANNED = "minute >= $first AND minute < $last"
_WHERE = f"{_SPANNED} AND source <> '{IMPORTED}'"
_STEP = "(minute - $first) // $width"
_STEPS = f"SELECT {_STEP}, source, sum(requests) FROM minutes WHERE {_WHERE} GROUP BY ALL"
_SPAN = f"SELECT max(newest_us), min(minute) FROM minutes WHERE {_WHERE}"
_UNDATED = "SELECT coalesce(sum(requests), 0) FROM minutes WHERE minute IS NULL"
_IMPORTED = f"SELECT coalesce(sum(requests), 0) FROM minutes WHERE {_SPANNED} AND source = '{IMPORTED}'"
_VERSIONS = f"""
SELECT version, sum(requests), sum(requests) FILTER (source IN ('precomputed', 'cached')),
  sum(requests) FILTER (source = 'live') FROM minutes WHERE {_WHERE} AND version IS NOT NULL
GROUP BY version ORDER BY 2 DESC, 1 LIMIT 50"""
_REASONS = f"""
SELECT coalesce(reason, ''), source, sum(requests) FROM minutes
WHERE {_WHERE} AND source NOT IN ('precomputed', '{ERROR}') GROUP BY ALL"""
_ERRORS = f"""
SELECT coalesce(code, ''), status, sum(requests) FROM minutes WHERE {_WHERE} AND source = '{ERROR}'
GROUP BY ALL ORDER BY 3 DESC, 1, 2 LIMIT 50"""
_PEAK = f"""
SELECT minute, sum(requests) AS n FROM minutes WHERE {_WHERE} AND {{counted}}
GROUP BY minute ORDER BY n DESC, minute LIMIT 1"""
# A refused caller's request (4xx) needs no replica; a failed answer (5xx) would have needed one.
_NEEDS_ANSWER = f"NOT (source = '{ERROR}' AND coalesce(status, 0) BETWEEN 400 AND 499)"
_TAIL = f"{_NEEDS_ANSWER} AND source NOT IN ('precomputed', 'cached')"
_LATENCIES = f"SELECT source, stage, bin, sum(requests) FROM latencies WHERE {_SPANNED} GROUP BY ALL"
_LATENCY_STEPS = f"""
SELECT {_STEP}, CASE WHEN source = 'live' THEN 'live' ELSE 'hit' END, bin, sum(requests) FROM latencies
WHERE {_SPANNED} AND stage = 'total' AND source IN ('precomputed', 'cached', 'live') GROUP BY ALL"""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of `requests` measured durations."""

    requests: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What the log says of a window. `steps` holds requests by source for each step of the window."""

    steps: Mapping[str, list[int]]
    newest_us: int | None
    undated: int
    imported: int
    versions: list[tuple[str, int, int, int]]
    reasons: list[tuple[str, dict[str, int]]]
    errors: list[tuple[str, int | None, int]]
    latencies: Mapping[tuple[str, str], Quantiles]
    latency_steps: Mapping[tuple[str, int], Quantiles]
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


def read_figures(connection: duckdb.DuckDBPyConnection, window: Window) -> Figures:
    """Runs the page's queries. Raises duckdb.Error."""
    span = {"first": window.start_s // 60, "last": window.end_s // 60}
    stepped = span | {"width": window.range.step_s // 60}

    def rows(query: str, parameters: Mapping[str, int] = span) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = connection.execute(query, dict(parameters)).fetchall()
        return found

    newest, _ = rows(_SPAN)[0]
    return Figures(
        steps=_by_step(rows(_STEPS, stepped), window.steps),
        newest_us=_whole(newest) if newest is not None else None,
        undated=_whole(rows(_UNDATED, {})[0][0]),
        imported=_whole(rows(_IMPORTED)[0][0]),
        versions=[(str(v), _whole(n), _whole(h or 0), _whole(t or 0)) for v, n, h, t in rows(_VERSIONS)],
        reasons=_by_reason(rows(_REASONS)),
        errors=[(str(code), None if s is None else _whole(s), _whole(n)) for code, s, n in rows(_ERRORS)],
        latencies=_quantiles_by_stage(connection.execute(_LATENCIES, span)),
        latency_steps=_quantiles_by_step(connection.execute(_LATENCY_STEPS, stepped)),
        all_peak=_peak(rows(_PEAK.format(counted=_NEEDS_ANSWER))),
        tail_peak=_peak(rows(_PEAK.format(counted=_TAIL))),
    )


def quantiles(bins: np.ndarray, requests: np.ndarray) -> Quantiles:
    """p50 and p99 by nearest rank. Args: bins (n,) numbers in any order, requests (n,) in each, n >= 1."""
    order = np.argsort(bins)
    reached = np.cumsum(requests[order])
    total = int(reached[-1])
    p50, p99 = (bin_ms(int(bins[order][np.searchsorted(reached, share * total)])) for share in (0.5, 0.99))
    return Quantiles(total, p50, p99)


def _whole(value: object) -> int:
    return int(str(value))


def _known(source: object) -> str:
    """A source of a newer log is shown as `other`, so that totals still add up."""
    return str(source) if source in SOURCES else OTHER


def _by_step(rows: Iterable[tuple[object, ...]], steps: int) -> dict[str, list[int]]:
    found = {source: [0] * steps for source in SOURCES}
    for step, source, requests in rows:
        found[_known(source)][_whole(step)] += _whole(requests)
    return found


def _by_reason(rows: Iterable[tuple[object, ...]]) -> list[tuple[str, dict[str, int]]]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for reason, source, requests in rows:
        found[str(reason)][_known(source)] += _whole(requests)
    return sorted(((reason, dict(by)) for reason, by in found.items()), key=lambda pair: -sum(pair[1].values()))


def _peak(rows: list[tuple[object, ...]]) -> PeakMinute | None:
    return PeakMinute(_whole(rows[0][0]), _whole(rows[0][1])) if rows else None


def _quantiles_by_stage(result: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], Quantiles]:
    """By (source, stage); `hit` stands for precomputed and cached together, `all` for every source."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for source, stage, number, requests in result.fetchall():
        groups = [_known(source), "all", *(["hit"] if source in HITS else [])]
        for group in groups:
            found[group, stage].append((number, int(requests)))
    return {key: _of_pairs(pairs) for key, pairs in found.items()}


def _quantiles_by_step(result: duckdb.DuckDBPyConnection) -> dict[tuple[str, int], Quantiles]:
    found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for step, group, number, requests in result.fetchall():
        found[group, step].append((number, int(requests)))
    return {key: _of_pairs(pairs) for key, pairs in found.items()}


def _of_pairs(pairs: list[tuple[int, int]]) -> Quantiles:
    array = np.array(pairs, dtype=np.int64)
    return quantiles(array[:, 0], array[:, 1])
