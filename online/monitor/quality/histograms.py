"""Both histograms of a feature or output, the baseline's and the window's, as bars beside each other. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from online.monitor import charts
from online.monitor.tables import Cell, Column, Kind, Table
from schemas.drift import CATEGORY, TOO_FEW, DriftRow

SHOWN_OF_EACH = 6
_MOST_CATEGORIES = 24
_MOST_NEW = 5
FEW = 6
_LABEL = 14
BASELINE, WINDOW = "baseline", "window"
_BAR = 0.4


@dataclass(frozen=True, slots=True)
class Drawn:
    """One feature or output with its chart and the chart's table."""

    row: DriftRow
    chart: charts.Chart
    table: Table

    @property
    def has_few_bins(self) -> bool:
        """Then each has its label under it."""
        return self.chart.steps <= FEW

    @property
    def said(self) -> str:
        return "; ".join(self.row.reasons) or "nothing found"


@dataclass(frozen=True, slots=True)
class _Bin:
    label: str
    baseline: int
    window: int


def drawn(rows: Sequence[DriftRow], first: int) -> list[Drawn]:
    """The worst of these rows, which are in that order, that have anything to draw; `first` numbers the tables."""
    wanted = [row for row in rows if row.level != TOO_FEW and (row.counts or row.rows)][:SHOWN_OF_EACH]
    return [_drawn(row, f"histogram_{first + place}") for place, row in enumerate(wanted)]


def _drawn(row: DriftRow, name: str) -> Drawn:
    bins = _bins(row)
    table = _table(row, name, bins)
    return Drawn(row, _chart(row, name, bins), table)


def _bins(row: DriftRow) -> list[_Bin]:
    """Bins of the baseline in their order, then what lies in none of them, where there is any."""
    found = _categories(row) if row.type == CATEGORY else _ranges(row)
    unlisted = max(0, row.baseline_rows - row.baseline_nulls - sum(row.baseline_counts))
    rest = [
        _Bin(f"new: {value!r}", 0, count)
        for value, count in zip(row.new_values, row.new_counts, strict=False)
        if row.type == CATEGORY
    ][:_MOST_NEW]
    outside = row.outside - sum(one.window for one in rest)
    more = [
        *rest,
        _Bin("other values" if row.type == CATEGORY else "out of range", unlisted, max(0, outside)),
        _Bin("null", row.baseline_nulls, row.nulls),
        _Bin("absent", 0, row.absent),
    ]
    return [*found, *(one for one in more if one.baseline or one.window)]


def _ranges(row: DriftRow) -> list[_Bin]:
    edges = row.edges or []
    if len(edges) == 1:  # a constant
        labels = [f"{edges[0]:.4g}"]
    else:
        labels = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
    return [_Bin(*one) for one in zip(labels, row.baseline_counts, row.counts, strict=False)]


def _categories(row: DriftRow) -> list[_Bin]:
    """The most frequent of either side; the rest is one bin."""
    every = [_Bin(*one) for one in zip(row.values or [], row.baseline_counts, row.counts, strict=False)]
    if len(every) <= _MOST_CATEGORIES:
        return every
    total = (max(1, sum(row.baseline_counts)), max(1, sum(row.counts)))
    every.sort(key=lambda one: -max(one.baseline / total[0], one.window / total[1]))
    shown, rest = every[: _MOST_CATEGORIES - 1], every[_MOST_CATEGORIES - 1 :]
    joined = _Bin(f"{len(rest)} others", sum(one.baseline for one in rest), sum(one.window for one in rest))
    return [*shown, joined]


def _shares(row: DriftRow, bins: Sequence[_Bin]) -> list[tuple[float, float]]:
    """Of all rows of a side. A window's row that was withheld is none."""
    return [
        (
            one.baseline / row.baseline_rows if row.baseline_rows else 0.0,
            one.window / row.rows if row.rows else 0.0,
        )
        for one in bins
    ]


def _table(row: DriftRow, name: str, bins: Sequence[_Bin]) -> Table:
    columns = [
        Column("bin", row.name),
        Column(BASELINE, "Baseline", Kind.SHARE),
        Column(WINDOW, "Window", Kind.SHARE),
        Column("baseline_rows", "Rows of the baseline", Kind.COUNT),
        Column("window_rows", "Rows of the window", Kind.COUNT),
    ]
    rows: list[Sequence[Cell]] = [
        [one.label, *shares, one.baseline, one.window]
        for one, shares in zip(bins, _shares(row, bins), strict=True)
    ]
    title = f"{row.name}: {row.side} of {row.population}"
    note = f"Shares of {row.baseline_rows:,} rows of the baseline, and of {row.rows:,} sampled rows of the window."
    return Table(name, title, columns, rows, "There is nothing in either.", note)


def _chart(row: DriftRow, name: str, bins: Sequence[_Bin]) -> charts.Chart:
    shares = _shares(row, bins)
    top = min(1.0, charts.nice_ceiling(100 * max((max(pair) for pair in shares), default=0.0)) / 100)
    layers = [
        charts.Layer(key, label, _bars([pair[side] for pair in shares], side, top))
        for side, (key, label) in enumerate(((BASELINE, "Baseline"), (WINDOW, "Window")))
    ]
    y_labels = [f"{100 * top * part / 4:g} %" for part in (4, 3, 2, 1, 0)]
    title = f"{row.name}, {row.side} of {row.population}"
    return charts.Chart(name, title, max(1, len(bins)), layers, y_labels, _ticks(bins), name)


def _bars(shares: Sequence[float], side: int, top: float) -> str:
    parts = []
    for place, share in enumerate(shares):
        height = charts.HEIGHT * min(1.0, share / top)
        if height > 0:
            left = place + 0.1 + side * _BAR
            parts.append(f"M{left:.2f} {charts.HEIGHT - height:.2f}h{_BAR}v{height:.2f}h-{_BAR}z")
    return "".join(parts)


def _ticks(bins: Sequence[_Bin]) -> list[str]:
    """One under each of a few bins; of many the first, the middle one and the last."""
    labels = [one.label if len(one.label) <= _LABEL else f"{one.label[: _LABEL - 1]}…" for one in bins]
    return labels if len(bins) <= FEW else [labels[0], labels[(len(bins) - 1) // 2], labels[-1]]
