"""The figures of the demo: the table that ends the run, and `.hotset/demo.json`. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from infra.demo.replay import ReplayResult
from schemas.capacity import BatchTime, replica_rows_per_s, replicas_needed

# Replicas are counted for a day with this many look-ups and the replayed day's shape, about what a large travel
# search sees: the day as it was needs one.
PLANNED_LOOKUPS_PER_DAY = 10_000_000_000
# A batch may take this long on a device, which bounds its size.
MAX_BATCH_MS = 50.0
MINUTES_PER_DAY = 1440
SOURCES = ("precomputed", "cached", "live", "stale", "default", "error")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of the demo found. Times in milliseconds, shares as plain ratios."""

    requests: int
    errors: int
    retries: int
    share_precomputed: float
    share_cached: float
    share_live: float
    hit_p50_ms: float
    hit_p99_ms: float
    cached_p50_ms: float
    cached_p99_ms: float
    live_p50_ms: float
    live_p99_ms: float
    hot_entities: int
    known_entities: int
    hot_entity_share: float
    hot_traffic_share: float
    replicas_without: int
    replicas_with: int
    tau0_ms: float
    alpha_ms: float
    max_abs_diff_hit_vs_live: float
    compared_entities: int
    auc: float
    brier: float
    wall_s: float

    def as_json(self) -> dict[str, float | int]:
        """Without the figures that nothing was measured for (no live answer, say): they are NaN here."""
        return {name: value for name, value in asdict(self).items() if value == value}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The replayed day, before it was scaled down: its look-ups by minute, all and those of hot entities."""

    by_minute: npt.NDArray[np.int64]
    hot_by_minute: npt.NDArray[np.int64]

    @property
    def hot_share(self) -> float:
        return float(self.hot_by_minute.sum() / max(1, self.by_minute.sum()))


def traffic_of(
    minutes: Sequence[int] | npt.NDArray[np.int64], entities: Sequence[str], hot: Collection[str]
) -> Traffic:
    """`minutes` of the day (0 to 1439) and entity of each look-up."""
    by_minute = np.bincount(minutes, minlength=MINUTES_PER_DAY)
    hot_minutes = [minute for minute, entity in zip(minutes, entities, strict=True) if entity in hot]
    return Traffic(by_minute, np.bincount(np.array(hot_minutes, dtype=np.int64), minlength=MINUTES_PER_DAY))


def replicas(traffic: Traffic, time: BatchTime, max_batch_rows: int) -> tuple[int, int]:
    """Replicas for the planned day's peak minute: without precomputing, and with it.

    The peak of what misses is its own minute, not the mean hit rate times the peak of all. Written-back answers
    are not counted as saved: with a cold cache there are none.
    """
    scale = PLANNED_LOOKUPS_PER_DAY / max(1, int(traffic.by_minute.sum())) / 60
    one = replica_rows_per_s(time, max_batch_rows, MAX_BATCH_MS)
    without = replicas_needed(float(traffic.by_minute.max()) * scale, one)
    missed = traffic.by_minute - traffic.hot_by_minute
    return without, replicas_needed(float(missed.max()) * scale, one)


def quantile_ms(result: ReplayResult, source: str, share: float) -> float:
    """The latency below which `share` of a source's answers at first attempt lie; NaN where there is none."""
    found = [one.latency_ms for one in result.answered if one.source == source and one.attempts == 1]
    return float(np.quantile(found, share)) if found else float("nan")


def share_by_source(result: ReplayResult) -> dict[str, float]:
    counts = Counter(one.source for one in result.answered)
    total = max(1, len(result.answered))
    return {source: counts[source] / total for source in SOURCES}


def rows_of(measured: Measured, factor: int) -> list[tuple[str, str, str]]:
    """(figure, value, what it means) for the closing table."""
    m = measured
    return [
        ("Requests", f"{m.requests:,}", f"seats of the flights flown today, one in {factor}"),
        ("Errors", f"{m.errors:,}", f"look-ups never answered; {m.retries:,} were asked again as told"),
        ("Precomputed", _share(m.share_precomputed), "answered from last night's generation"),
        ("Cached", _share(m.share_cached), "answered from a live result written back"),
        ("Live", _share(m.share_live), "computed when asked, in batches"),
        ("Hit p50 / p99", _pair(m.hit_p50_ms, m.hit_p99_ms), "precomputed answers, as the client saw them"),
        ("Cached p50 / p99", _pair(m.cached_p50_ms, m.cached_p99_ms), "written-back answers"),
        ("Live p50 / p99", _pair(m.live_p50_ms, m.live_p99_ms), "live answers"),
        (
            "Hot set",
            f"{m.hot_entities:,} of {m.known_entities:,}",
            f"{_share(m.hot_entity_share)} of known entities",
        ),
        ("Hot traffic", _share(m.hot_traffic_share), "of today's look-ups are for the hot set"),
        (
            "Largest difference",
            f"{m.max_abs_diff_hit_vs_live:.2g}",
            f"hit against live, {m.compared_entities} entities",
        ),
        ("T(b)", f"{m.tau0_ms:.2f} + {m.alpha_ms:.3f} b ms", "a batch of b rows on this device, measured"),
        (
            "Replicas",
            f"{m.replicas_without} → {m.replicas_with}",
            f"without and with precomputing, were this day {PLANNED_LOOKUPS_PER_DAY / 1e9:.0f} billion look-ups",
        ),
        ("Wall time", f"{m.wall_s:.0f} s", "of this run, set-up of packages apart"),
    ]


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _pair(p50_ms: float, p99_ms: float) -> str:
    return "none" if p50_ms != p50_ms else f"{p50_ms:.2f} / {p99_ms:.2f} ms"
