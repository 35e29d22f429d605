"""The Hot set page's charts. Pure."""

from collections.abc import Mapping, Sequence
from math import ceil, log10

import numpy as np

from online.monitor import charts
from online.monitor.charts import HEIGHT, Chart, Layer
from online.monitor.curves import polyline
from online.monitor.hotset.nights import Realised
from online.monitor.hotset.tables import COMPARED, LABELS
from online.monitor.text import share
from schemas.hotset_report import HotSetReport

STEPS_PER_DECADE = 10
_PER_CENT = ("100 %", "75 %", "50 %", "25 %", "0 %")
_TICKS = 5
Row = tuple[float, float, float]


def decades(newest: HotSetReport) -> int:
    """How far the axis of entities reaches down from all of them: to one of them, at most six powers of ten."""
    return min(6, max(1, ceil(log10(max(newest.known_entities, 2)))))


def coverage_rows(newest: HotSetReport | None) -> list[Row]:
    """At the middles of the axis's steps: share of known entities, how many, and the share of the requests."""
    if newest is None or len(newest.coverage) < 2:
        return []
    known, traffic = zip(*((point.entities, point.traffic) for point in newest.coverage), strict=True)
    steps = decades(newest) * STEPS_PER_DECADE
    shares = [10 ** ((step + 0.5) / STEPS_PER_DECADE - decades(newest)) for step in range(steps)]
    found = np.interp(shares, known, traffic)
    return [(one, one * newest.known_entities, float(held)) for one, held in zip(shares, found, strict=True)]


def coverage_chart(newest: HotSetReport | None, rows: Sequence[Row]) -> Chart:
    """Share of the requests against share of the entities, by powers of ten; the chosen point on its two axes."""
    steps = max(1, len(rows))
    layers = [
        Layer(
            "traffic",
            "Most asked for",
            polyline([(n + 0.5, row[2]) for n, row in enumerate(rows)], steps, 1),
            "series-1",
        )
    ]
    ticks: Sequence[str] = ()
    if newest is not None and rows:
        point = newest.chosen_point
        if point.entities > 0:
            x = steps * max(0.0, 1 + log10(point.entities) / decades(newest))
            y = HEIGHT * (1 - point.traffic)
            label = f"Chosen: {share(point.entities)} of the entities, {share(point.traffic)} of the requests"
            layers.append(Layer("chosen", label, f"M0 {y:.2f}H{x:.3f}V{HEIGHT:g}", "series-2"))
        ticks = [f"{10.0 ** (2 - power):g} %" for power in range(decades(newest), -1, -1)]
    return Chart(
        "coverage",
        "Share of the requests by share of the entities",
        steps,
        layers,
        _PER_CENT,
        ticks,
        "coverage",
        True,
    )


def windows_chart(newest: HotSetReport | None) -> Chart:
    """Hit rate of each window of the backtest, beside caches and sets of as many slots."""
    windows = newest.backtest.windows if newest and newest.backtest else []
    series = {
        name.replace("_", "-"): (LABELS[name], [one.hit_rates.get(name) for one in windows]) for name in COMPARED
    }
    ticks = _ticks([f"{one.begin:%d %b}" for one in windows])
    return charts.share_lines("windows", "Hit rate by window", series, ticks, "windows")


def nights_chart(nights: Sequence[HotSetReport], found: Mapping[str, Realised | None]) -> Chart:
    """Expected and realised share of the requests, a step a night. Args: nights, newest first."""
    nights = nights[::-1]
    since = [found.get(one.generation) for one in nights]
    series: dict[str, tuple[str, list[float | None]]] = {
        "expected-share": ("Expected", [one.chosen.expected_share for one in nights]),
        "realised-share": ("Realised", [one.precomputed_share if one else None for one in since]),
        "hit-share": ("With caches", [one.hit_share if one else None for one in since]),
    }
    ticks = _ticks([f"{one.as_of:%d %b}" for one in nights])
    return charts.share_lines("nights", "Share of the requests by night", series, ticks, "realised")


def _ticks(labels: Sequence[str]) -> list[str]:
    """At most five, at equal distances, the first and the last among them."""
    if len(labels) <= 1:
        return list(labels)
    most = min(_TICKS, len(labels))
    return [labels[round(place * (len(labels) - 1) / (most - 1))] for place in range(most)]
