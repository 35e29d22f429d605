"""Geometry: bars stack to the total, shares to the top, lines break where nothing was measured."""

import re

import pytest

from online.monitor import charts

TICKS = ["a", "b"]


def bar_heights(path: str) -> list[float]:
    return [float(height) for height in re.findall(r"v([0-9.]+)", path)]


def test_stacked_counts_scale_to_a_round_top() -> None:
    series = {"live": ("Live", [3, 0]), "error": ("Error", [1, 7])}
    chart = charts.stacked_counts("n", "N", series, TICKS, "t")
    assert chart.y_labels == ["8", "6", "4", "2", "0"]
    assert bar_heights(chart.layers[0].path) == [37.5]
    assert bar_heights(chart.layers[1].path) == [12.5, 87.5]
    assert chart.layers[1].path.startswith("M0.06 50.00")


def test_shares_fill_the_chart_or_leave_a_gap() -> None:
    series = {"precomputed": ("P", [3, 0]), "live": ("L", [1, 0])}
    chart = charts.stacked_shares("n", "N", series, TICKS, "t")
    assert [bar_heights(layer.path) for layer in chart.layers] == [[75.0], [25.0]]


def test_nothing_to_draw_is_empty() -> None:
    assert charts.stacked_counts("n", "N", {"live": ("L", [0, 0])}, TICKS, "t").is_empty
    assert charts.log_lines("n", "N", {"p50": ("p50", [None, None])}, TICKS, "t").is_empty


def test_lines_cover_whole_decades_and_break_at_gaps() -> None:
    chart = charts.log_lines("n", "N", {"p50": ("p50", [1.0, 10.0, None, 100.0])}, TICKS, "t")
    assert chart.y_labels == ["100 ms", "10 ms", "1 ms"]
    assert chart.layers[0].path == "M0 100.00H1V50.00H2M3 0.00H4"


@pytest.mark.parametrize(
    ("value", "top"), [(0, 4), (4, 4), (5, 6), (13, 16), (99, 100), (101, 120), (51_234, 60_000)]
)
def test_nice_ceiling(value: float, top: float) -> None:
    assert charts.nice_ceiling(value) == pytest.approx(top)


def test_range_bar_is_logarithmic_and_stays_inside() -> None:
    assert charts.range_bar(1, 10_000, 0.1, 1000) == (pytest.approx(25), 100)
    assert charts.range_bar(0.01, 0.05, 0.1, 1000) == (0, 0)


def test_lines_of_shares_and_counts_draw_zero_and_leave_gaps() -> None:
    chart = charts.share_lines("n", "N", {"a": ("A", [0.0, 1.0, None, 0.5])}, TICKS, "t", [2])
    assert chart.layers[0].path == "M0 100.00H1V0.00H2M3 50.00H4"
    assert (chart.layers[0].style, chart.marks) == ("series-1", [2])
    chart = charts.count_lines("n", "N", {"a": ("A", [0, 7]), "b": ("B", [None, 2])}, TICKS, "t")
    assert chart.y_labels == ["8", "6", "4", "2", "0"]
    assert [layer.path for layer in chart.layers] == ["M0 100.00H1V12.50H2", "M1 75.00H2"]
    assert [layer.style for layer in chart.layers] == ["series-1", "series-2"]
    assert charts.count_lines("n", "N", {"a": ("A", [0, None])}, TICKS, "t").is_empty
