"""Figures in words, and documents as JSON can hold them."""

from math import inf, nan

import numpy as np
import pytest

from online.planning.answer import Answer, Sheet, dollars, number, percent, plain
from online.planning.log_rows import Durations
from online.planning.rendering import to_json, to_markdown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.3456, "12.35"), (1234.5, "1,234"), (19_699_000.0, "19,700,000"), (0.00001234, "0.00001234")],
)
def test_numbers_are_written_in_full(value: float, text: str) -> None:
    assert number(value) == text


def test_what_is_no_number() -> None:
    assert (number(nan), number(inf), dollars(nan), percent(nan)) == ("–", "∞", "–", "–")


def test_money_and_shares() -> None:
    assert [dollars(one) for one in (2303.88, 1.154, 0.0002)] == ["$2,304", "$1.15", "$0.0002"]
    assert [percent(one) for one in (0.0, 0.004, 0.126, 1.29)] == ["0%", "0.4%", "13%", "129%"]


def test_documents_hold_nothing_that_json_does_not() -> None:
    assert plain({"a": nan, "b": (1, inf), 3: [True, None, "x"]}) == {
        "a": None,
        "b": [1, None],
        "3": [True, None, "x"],
    }
    assert '"a": null' in to_json(Answer({"a": nan}, ()))


def test_cells_of_markdown_cannot_break_the_table() -> None:
    assert to_markdown(Answer({}, [Sheet("t", ("a|b",), [("1|2",)])], ["n"])).splitlines() == [
        "**t**", "", r"| a\|b |", "| --- |", r"| 1\|2 |", "", "- n",
    ]  # fmt: skip


def test_quantiles_of_a_histogram_are_within_half_a_per_cent() -> None:
    sample = np.random.default_rng(2).lognormal(8, 1, 10_000)
    durations = Durations()
    for part in np.array_split(sample, 7):
        durations.add(part)
    for share in (0.01, 0.5, 0.99):
        exact = np.quantile(sample, share, method="inverted_cdf") / 1e3
        assert durations.quantile_ms(share) == pytest.approx(exact, rel=0.006)
    assert np.isnan(Durations().quantile_ms(0.5))
