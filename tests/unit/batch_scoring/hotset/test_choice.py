"""What is chosen under a budget, by hand-made numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from batch_scoring.hotset.choice import NO_LISTS, Lists, choose, ranked
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.trace import Trace

MODEL = CostModel(live_ms=10, batch_ms=1, payload_bytes=46, generations=2)


def known(names: list[str], cost: list[float] | None = None) -> Trace:
    return Trace.of(np.empty(0, np.int64), names, cost=None if cost is None else np.array(cost))


def chosen(
    trace: Trace, expected: list[float], most: int = 99, budget: float = 1e9, lists: Lists = NO_LISTS
) -> list[str]:
    wanted = np.array(expected)
    return [trace.names[code] for code in choose(wanted, wanted, trace, MODEL, most, budget, lists)]


def test_it_ends_where_nothing_more_is_saved() -> None:
    # One hit in ten pays for the scoring.
    assert chosen(known(["a", "b", "c", "d"]), [0.1, 0.11, 5, 0]) == ["c", "b"]


def test_the_budget_counts_both_generations() -> None:
    trace = known(["a1", "b1", "c1"])  # 48 bytes each, in each of two generations
    assert chosen(trace, [3, 2, 1], budget=192) == ["a1", "b1"]
    assert chosen(trace, [3, 2, 1], budget=191) == ["a1"]
    assert chosen(trace, [3, 2, 1], budget=95) == []


def test_a_long_id_must_be_worth_its_bytes() -> None:
    trace = known(["x" * 200, "y"])
    assert chosen(trace, [3, 2], most=1) == ["y"]
    assert chosen(trace, [30, 2], most=1) == ["x" * 200]


def test_dear_entities_are_worth_more() -> None:
    assert chosen(known(["a", "b"], cost=[1, 5]), [3, 2], most=1) == ["b"]


def test_ties_at_the_cut_are_by_the_bytes_of_the_id() -> None:
    same_size = ["zz", "aa", "BB", "10", "09"]
    assert chosen(known(same_size), [1.0] * 5, most=3) == ["09", "10", "BB"]
    assert chosen(known(same_size[::-1]), [1.0] * 5, most=3) == ["09", "10", "BB"]


def test_the_mandatory_are_in_and_the_blocked_are_not() -> None:
    trace = known(["a", "b", "c", "d"])
    lists = Lists.of(trace, mandatory=["d", "nobody", "c"], blocked=["a", "c"])
    assert chosen(trace, [9, 1, 9, 0], lists=lists) == ["d", "b"]
    assert chosen(trace, [9, 1, 9, 0], most=1, lists=lists) == ["d"]
    assert chosen(trace, [9, 1, 9, 0], most=0, lists=lists) == ["d"]


@given(st.lists(st.floats(0, 20), min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_a_larger_choice_begins_with_the_smaller(expected: list[float], few: int, more: int) -> None:
    trace = known([f"e{place:02d}" for place in range(len(expected))])
    few, more = min(few, more), max(few, more)
    assert chosen(trace, expected, most=more)[:few] == chosen(trace, expected, most=few)


def test_a_ranking_goes_on_where_a_choice_ends() -> None:
    trace = known(["a", "b", "c"])
    expected, means = np.array([0.0, 3, 0]), np.array([1.0, 2, 0])
    assert ranked(expected, means, trace, MODEL, 5).tolist() == [1, 0]


def test_costs_that_make_no_hit_worth_having_are_refused() -> None:
    with pytest.raises(ValidationError, match="stale_ms must be below live_ms"):
        CostModel(live_ms=1, stale_ms=1)
