"""PSI and Jensen-Shannon against hand-made figures, and their thresholds against simulated windows."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_scoring.drift.statistics import (
    LEAST_EXPECTED_ROWS,
    Distance,
    chance_of_outside,
    distance,
    effective_rows,
    join_neighbours,
    join_rare,
    joined,
    level_of_each,
)

LEVEL = 0.01


def test_figures_by_hand() -> None:
    # Shares 1/2, 1/2 against 4/5, 1/5; so many rows that the prior does not show.
    apart = distance(np.array([5e8, 5e8]), np.array([8e8, 2e8]), 0.1, LEVEL)
    assert apart.psi == pytest.approx(0.3 * log(0.8 / 0.5) - 0.3 * log(0.2 / 0.5), rel=1e-6)
    middle = np.array([0.65, 0.35])
    kl = [sum(p * np.log2(p / middle)) for p in (np.array([0.5, 0.5]), np.array([0.8, 0.2]))]
    assert apart.jensen_shannon == pytest.approx(sum(kl) / 2, rel=1e-6)
    assert (apart.freedom, apart.is_over) == (1, True)
    # With rows without end, what is left is what is tolerated.
    assert apart.psi_threshold == pytest.approx(0.1, rel=1e-3)
    assert apart.jensen_shannon_threshold == pytest.approx(0.1 / 8 / log(2), rel=1e-3)


def test_either_distance_over_its_threshold_counts_where_there_are_two_bins() -> None:
    assert Distance(0.2, 0.1, 0.0, 0.1, 1).is_over
    assert Distance(0.0, 0.1, 0.2, 0.1, 1).is_over
    assert not Distance(0.1, 0.1, 0.1, 0.1, 1).is_over
    assert not Distance(0.2, 0.1, 0.2, 0.1, 0).is_over


def test_thresholds_fall_as_rows_grow() -> None:
    limits = [
        distance(np.full(20, 5e4), np.full(20, rows / 20), 0.1, 1e-6).psi_threshold
        for rows in (100, 1_000, 10_000, 1_000_000)
    ]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] > 0.7
    assert limits[-1] < 0.11


@pytest.mark.parametrize(("bins", "rows", "baseline_rows"), [(5, 100, 20_000), (20, 10**5, 10**4)])
def test_by_chance_as_often_as_said(bins: int, rows: int, baseline_rows: int) -> None:
    random = np.random.default_rng(bins * rows)
    over = 0
    for _ in range(500):
        before = random.multinomial(baseline_rows, np.full(bins, 1 / bins)).astype(float)
        now = random.multinomial(rows, np.full(bins, 1 / bins)).astype(float)
        groups = join_neighbours(before, rows)
        apart = distance(joined(before, groups), joined(now, groups), 0.0, 0.05)
        over += apart.psi > apart.psi_threshold
    assert 6 <= over <= 44  # of 500 at 5 %: four standard deviations around 25


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
)
def test_always_finite(baseline: list[int], window: list[int]) -> None:
    size = min(len(baseline), len(window))
    before, now = np.array(baseline[:size], float), np.array(window[:size], float)
    if before.sum() < 1 or now.sum() < 1:
        return
    apart = distance(before, now, 0.1, 1e-7)
    assert np.isfinite([apart.psi, apart.psi_threshold, apart.jensen_shannon]).all()
    assert apart.psi >= 0
    assert 0 <= apart.jensen_shannon <= 1
    for join in (join_neighbours, join_rare):
        groups = join(before, float(now.sum()))
        assert joined(before, groups).sum() == before.sum()
        together = joined(before, groups) * min(1.0, now.sum() / before.sum())
        assert len(together) == 1 or (together >= LEAST_EXPECTED_ROWS - 1e-6).all()


def test_rows_outside() -> None:
    # One more row lies outside the range of m rows with 2 / (m + 1), and none of them lies nowhere.
    assert chance_of_outside(1, 1, 2, 999) == pytest.approx(2 / 1_000)
    assert chance_of_outside(0, 1_000_000, 2, 999) == 1
    assert chance_of_outside(20_000, 1_000_000, 2, 999) < 1e-7 < chance_of_outside(6_000, 1_000_000, 2, 999)
    assert chance_of_outside(999_990, 1_000_000, 2, 999) == pytest.approx(0, abs=1e-9)


def test_rows_that_repeat_each_other() -> None:
    assert effective_rows(100, 100) == 100
    assert effective_rows(100, 10 * 10**2) == 10
    assert effective_rows(0, 0) == 0


def test_the_chance_is_shared() -> None:
    assert level_of_each(0.05, 500) == pytest.approx(1e-4)
