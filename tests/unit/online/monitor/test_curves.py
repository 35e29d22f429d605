"""Lines on linear axes."""

from online.monitor.curves import line_chart, polyline, upright


def test_a_line_is_scaled_cut_off_at_the_top_and_has_gaps() -> None:
    points = [(0.5, 0.0), (1.5, 25.0), (2.5, None), (3.5, 50.0), (4.5, 400.0)]
    assert polyline(points, 5, 100) == "M0.500 100.00L1.500 75.00M3.500 50.00L4.500 0.00"
    assert polyline([(-3.0, 1.0), (9.0, 1.0)], 5, 1) == "M0.000 0.00L5.000 0.00"
    assert polyline([], 5, 1) == ""


def test_lines_and_marks_have_colours_of_their_own() -> None:
    chart = line_chart(
        "c", "C", {"a": ("A", [(0.5, 1.0)]), "b": ("B", [(0.5, None)])}, steps=1, top=2, y_labels=["2", "0"],
        x_labels=["0", "1"], table="t", marks={"m": ("M", 0.25)},
    )  # fmt: skip
    assert [(layer.key, layer.style) for layer in chart.layers] == [
        ("a", "series-1"), ("b", "series-2"), ("m", "series-3"),
    ]  # fmt: skip
    assert chart.layers[2].path == upright(0.25) == "M0.250 0V100"
    assert not chart.is_empty
    assert chart.is_line
