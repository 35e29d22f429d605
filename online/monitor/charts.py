"""Geometry of the charts: series to SVG path data on a unit grid, one unit wide a step, 100 high. Pure.

The SVG is stretched to its box, so axis labels are HTML beside it and stay readable at phone width. What a step
holds is read from the data table under the chart, by hover, touch and keys (`static/site.js`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

HEIGHT = 100.0
# Room between bars, in steps.
GAP = 0.12
# As many as `site.css` has.
SERIES_COLOURS = 6


Marks = Sequence[int]


@dataclass(frozen=True, slots=True)
class Layer:
    """One series: `key` is its column's and names its colour where `colour` does not; `path` is SVG path data."""

    key: str
    label: str
    path: str
    colour: str | None = None

    @property
    def style(self) -> str:
        return self.colour or self.key


@dataclass(frozen=True, slots=True)
class Chart:
    """`y_labels` from the top down, at equal distances; `x_labels` from left to right. `table` is its data.

    `marks` are steps in which something was released or changed; the table has the words.
    """

    name: str
    title: str
    steps: int
    layers: Sequence[Layer]
    y_labels: Sequence[str]
    x_labels: Sequence[str]
    table: str
    is_line: bool = False
    marks: Marks = ()

    @property
    def is_empty(self) -> bool:
        return not any(layer.path for layer in self.layers)

    @property
    def grid(self) -> list[float]:
        """Heights of the lines across the chart, one a label."""
        return [HEIGHT * place / (len(self.y_labels) - 1) for place in range(len(self.y_labels))]


def stacked_counts(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[int]]],
    x_labels: Sequence[str],
    table: str,
    marks: Marks = (),
) -> Chart:
    """Bars of requests, one series upon another. Args: series: label and one count a step, by key."""
    columns = [values for _, values in series.values()]
    top = nice_ceiling(max((sum(column) for column in zip(*columns, strict=True)), default=0))
    scale = [HEIGHT / top] * len(columns[0])
    labels = [compact(top * part / 4) for part in (4, 3, 2, 1, 0)]
    return Chart(name, title, len(columns[0]), _stack(series, scale), labels, x_labels, table, marks=marks)


def stacked_shares(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[int]]],
    x_labels: Sequence[str],
    table: str,
    marks: Marks = (),
) -> Chart:
    """Bars of the same height: what part of a step's requests each series has. Steps without requests are gaps."""
    columns = [values for _, values in series.values()]
    totals = [sum(column) for column in zip(*columns, strict=True)]
    scale = [HEIGHT / total if total else 0.0 for total in totals]
    labels = ["100 %", "75 %", "50 %", "25 %", "0 %"]
    return Chart(name, title, len(totals), _stack(series, scale), labels, x_labels, table, marks=marks)


def log_lines(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[float | None]]],
    x_labels: Sequence[str],
    table: str,
    marks: Marks = (),
) -> Chart:
    """Step lines of milliseconds over whole decades. A step without a value is a gap."""
    values = [value for _, line in series.values() for value in line if value]
    low = floor(log10(min(values))) if values else 0
    high = max(low + 1, ceil(log10(max(values)))) if values else 1

    def height(value: float) -> float:
        return (log10(value) - low) / (high - low)

    layers = [
        Layer(key, label, _line([value or None for value in line], height))
        for key, (label, line) in series.items()
    ]
    labels = [f"{10.0**power:g} ms" for power in range(high, low - 1, -1)]
    steps = len(next(iter(series.values()))[1])
    return Chart(name, title, steps, layers, labels, x_labels, table, is_line=True, marks=marks)


def share_lines(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[float | None]]],
    x_labels: Sequence[str],
    table: str,
    marks: Marks = (),
) -> Chart:
    """Step lines of shares, 0 to 1, in colours of their own. A step without a value is a gap; zero is a value."""
    labels = ["100 %", "75 %", "50 %", "25 %", "0 %"]
    return _lines(name, title, series, 1.0, labels, x_labels, table, marks)


def count_lines(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[float | None]]],
    x_labels: Sequence[str],
    table: str,
    marks: Marks = (),
) -> Chart:
    """Step lines from zero up, in colours of their own. A step without a value is a gap; zero is a value."""
    values = [value for _, line in series.values() for value in line if value is not None]
    top = nice_ceiling(max(values, default=0))
    labels = [compact(top * part / 4) for part in (4, 3, 2, 1, 0)]
    return _lines(name, title, series, top, labels, x_labels, table, marks)


def nice_ceiling(value: float) -> float:
    """The next of 4, 8, 12, 20, 40, ... at or above `value`, so that quarters of it are short numbers."""
    if value <= 4:
        return 4.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12) if step * power >= value)


def compact(value: float) -> str:
    """A count for an axis: 1200 is 1.2k."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def range_bar(p50_ms: float, p99_ms: float, low_ms: float, high_ms: float) -> tuple[float, float]:
    """Where p50 and p99 lie between `low_ms` and `high_ms` on a logarithmic scale, each 0 to 100."""
    width = log10(high_ms / low_ms)

    def place(value: float) -> float:
        return 100 * min(1.0, max(0.0, log10(max(value, low_ms) / low_ms) / width))

    return place(p50_ms), place(p99_ms)


def _lines(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Sequence[float | None]]],
    top: float,
    y_labels: Sequence[str],
    x_labels: Sequence[str],
    table: str,
    marks: Marks,
) -> Chart:
    """Empty where all is zero, as where there is nothing."""
    is_empty = not any(value for _, line in series.values() for value in line)
    layers = [
        Layer(
            key,
            label,
            "" if is_empty else _line(line, lambda value: value / top),
            f"series-{place % SERIES_COLOURS + 1}",
        )
        for place, (key, (label, line)) in enumerate(series.items())
    ]
    steps = len(next(iter(series.values()))[1])
    return Chart(name, title, steps, layers, y_labels, x_labels, table, is_line=True, marks=marks)


def _stack(series: Mapping[str, tuple[str, Sequence[int]]], scale: Sequence[float]) -> list[Layer]:
    floors = [0.0] * len(scale)
    layers = []
    for key, (label, values) in series.items():
        parts = []
        for step, value in enumerate(values):
            height = value * scale[step]
            if height > 0:
                top = HEIGHT - floors[step] - height
                parts.append(f"M{step + GAP / 2:.2f} {top:.2f}h{1 - GAP:.2f}v{height:.2f}h-{1 - GAP:.2f}z")
                floors[step] += height
        layers.append(Layer(key, label, "".join(parts)))
    return layers


def _line(values: Sequence[float | None], height: Callable[[float], float]) -> str:
    """Horizontal pieces, a step long, joined where steps with values follow each other; `height` is 0 to 1."""
    parts, is_open = [], False
    for step, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        y = HEIGHT * (1 - height(value))
        parts.append(f"{'V' if is_open else f'M{step} '}{y:.2f}H{step + 1}")
        is_open = True
    return "".join(parts)
