"""Geometry of line charts on linear axes: points to SVG path data on the grid of `charts.py`. Pure."""

from collections.abc import Mapping, Sequence

from online.monitor.charts import HEIGHT, SERIES_COLOURS, Chart, Layer

Points = Sequence[tuple[float, float | None]]


def polyline(points: Points, width: float, top: float) -> str:
    """Straight between points; a point without a height is a gap, and what is above `top` is cut off there.

    Args:
        points: (x, y) with x from 0 to `width` in steps, y from 0 to `top`.
    """
    parts, is_open = [], False
    for x, y in points:
        if y is None:
            is_open = False
            continue
        height = HEIGHT * (1 - min(y, top) / top)
        parts.append(f"{'L' if is_open else 'M'}{min(max(x, 0.0), width):.3f} {height:.2f}")
        is_open = True
    return "".join(parts)


def upright(x: float) -> str:
    """A mark from the top to the bottom."""
    return f"M{x:.3f} 0V{HEIGHT:g}"


def line_chart(
    name: str,
    title: str,
    series: Mapping[str, tuple[str, Points]],
    *,
    steps: int,
    top: float,
    y_labels: Sequence[str],
    x_labels: Sequence[str],
    table: str,
    marks: Mapping[str, tuple[str, float]] | None = None,
) -> Chart:
    """Lines by key, and upright marks at x by key. `steps` is the width of the grid, a row of the table each."""
    shapes = [(key, label, polyline(points, steps, top)) for key, (label, points) in series.items()]
    shapes += [(key, label, upright(x)) for key, (label, x) in (marks or {}).items()]
    layers = [
        Layer(key, label, path, f"series-{place % SERIES_COLOURS + 1}")
        for place, (key, label, path) in enumerate(shapes)
    ]
    return Chart(name, title, steps, layers, y_labels, x_labels, table, is_line=True)
