"""What is said of each test window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.baselines import seen_before
from batch_scoring.hotset.plan import View
from batch_scoring.hotset.split import Bools, Replayed
from batch_scoring.hotset.trace import Floats, Ints, Trace, Windows

_MINUTE_S = 60


@dataclass(frozen=True)
class WindowResult:
    """One test window. Rates are of its requests; None where there is nothing to take a share of.

    Attributes:
        fixed: entities precomputed, by `split` of the slots; `expected_requests` for them, and what came.
        half_life, period: of the profile, in windows; no season is 0.
        hit_rates: of the choice and of every baseline; by cost and by bytes of the choice.
        peak_minute_misses: in the minute with the most; the rate is of that minute's requests. None where the log
            has an order only.
        churn: share of the set that was not in the one before.
        best_split: the most hits that any one split of the grid had in this very window.
    """

    begin_s: float
    requests: int
    fixed: int
    split: float
    half_life: float
    period: int
    hit_rates: dict[str, float]
    hit_rate_by_cost: float
    hit_rate_by_bytes: float
    precomputed_hit_rate: float
    expected_requests: float
    realised_requests: int
    never_read_share: float | None
    unseen_share: float
    churn: float | None
    peak_minute_misses: int | None
    peak_minute_miss_rate: float | None
    best_split: float


@dataclass(frozen=True)
class Totals:
    """As in `WindowResult`, over some windows: means by requests, of `never_read_share` by entities, of `churn` by
    windows after the first, and the worst peak minute."""

    hit_rate_by_cost: float
    hit_rate_by_bytes: float
    precomputed_hit_rate: float
    never_read_share: float | None
    unseen_share: float
    churn: float | None
    peak_minute_miss_rate: float | None


def totals(windows: Sequence[WindowResult]) -> Totals:
    """`windows`: at least one."""
    requests = [window.requests for window in windows]
    fixed = sum(window.fixed for window in windows)
    never = sum((window.never_read_share or 0.0) * window.fixed for window in windows)
    churns = [window.churn for window in windows[1:] if window.churn is not None]
    peaks = [window.peak_minute_miss_rate for window in windows if window.peak_minute_miss_rate is not None]

    def mean(name: str) -> float:
        return float(np.average([getattr(window, name) for window in windows], weights=requests))

    return Totals(
        mean("hit_rate_by_cost"),
        mean("hit_rate_by_bytes"),
        mean("precomputed_hit_rate"),
        never / fixed if fixed else None,
        mean("unseen_share"),
        float(np.mean(churns)) if churns else None,
        max(peaks) if peaks else None,
    )


@dataclass(frozen=True)
class Measures:
    """What a whole replay left: of each window its view, fitted split and set; `constant`: of each split kept."""

    trace: Trace
    windows: Windows
    views: Sequence[View]
    fitted: Sequence[float]
    sets: Sequence[Ints]
    constant: Sequence[Replayed]
    replayed: Replayed
    hits: Mapping[str, Bools]

    def window(self, window: int) -> WindowResult:
        trace, span, chosen = self.trace, self.windows.span(window), self.sets[window]
        codes, hits = trace.codes[span], self.hits["choice"][span]
        got = np.bincount(codes, minlength=trace.entities)[chosen]
        misses, peak_requests = self._peak(span, hits)
        return WindowResult(
            begin_s=float(self.windows.edges_s[window]),
            requests=len(codes),
            fixed=len(chosen),
            split=self.fitted[window],
            half_life=self.views[window].profile.half_life,
            period=self.views[window].profile.period,
            hit_rates={name: float(found[span].mean()) for name, found in self.hits.items()},
            hit_rate_by_cost=_weighted(hits, trace.cost[codes]),
            hit_rate_by_bytes=_weighted(hits, trace.id_bytes[codes]),
            precomputed_hit_rate=float(self.replayed.fixed[span].mean()),
            expected_requests=float(self.views[window].expected[: len(chosen)].sum()),
            realised_requests=int(got.sum()),
            never_read_share=float(np.mean(got == 0)) if len(chosen) else None,
            unseen_share=float(np.mean(~seen_before(trace, self.windows, window))),
            churn=1 - len(np.intersect1d(chosen, self.sets[window - 1])) / len(chosen) if len(chosen) else None,
            peak_minute_misses=misses,
            peak_minute_miss_rate=misses / peak_requests if misses is not None and peak_requests else None,
            best_split=max(float(one.hits[span].mean()) for one in self.constant),
        )

    def _peak(self, span: slice, hits: Bools) -> tuple[int | None, int]:
        """Misses of the minute with the most, and that minute's requests."""
        if not self.trace.has_times:
            return None, 0
        minutes = (self.trace.times_s[span] // _MINUTE_S).astype(np.int64)
        minutes -= minutes[0]
        misses, requests = np.bincount(minutes, weights=~hits), np.bincount(minutes)
        worst = int(np.argmax(misses))
        return int(misses[worst]), int(requests[worst])


def peak_minute_requests(trace: Trace) -> int | None:
    """Of the minute with the most; None where the log has an order only."""
    if not trace.has_times or not len(trace.codes):
        return None
    minutes = (trace.times_s // _MINUTE_S).astype(np.int64)
    return int(np.unique_counts(minutes).counts.max())


def _weighted(hits: Bools, weights: Floats) -> float:
    return float(np.average(hits, weights=weights)) if weights.any() else 0.0
