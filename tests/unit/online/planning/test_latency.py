"""Textbook, bound and simulation side by side: limits, growth, units, and where they do not hold."""

from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online.planning.batching import MeasuredMs
from online.planning.checks import OutOfRange
from online.planning.device_queue import BatchingRule
from online.planning.latency import CURVE_LOADS, latency_at, latency_curve
from online.planning.replica import Replica
from online.planning.simulation import simulate
from schemas.capacity import BatchTime

T4 = Replica(BatchTime(6.0, 1.2), 64, 0.5)
LEAST = 6_400


def test_the_published_point_lies_on_the_curve() -> None:
    found = latency_at(T4, 600, BatchingRule(64))
    assert found.textbook_mean_ms == pytest.approx(32.1, abs=0.05)
    assert found.bound_mean_ms == pytest.approx(35.5, abs=0.05)
    assert found.simulated.mean_ms.value == pytest.approx(35.4, abs=0.6)


def test_the_curve_grows_with_the_load_and_begins_at_one_row() -> None:
    points = latency_curve(T4)
    assert [one.utilisation for one in points] == pytest.approx(CURVE_LOADS)
    for values in (
        [one.textbook_mean_ms for one in points],
        [one.bound_mean_ms for one in points],
        [one.simulated.mean_ms.value for one in points],
        [one.simulated.batch_rows for one in points],
    ):
        assert values == sorted(values)
    assert 7.2 < points[0].simulated.mean_ms.value < 8.2
    assert points[-1].simulated.mean_ms.value > 100
    # What a point's error is said to be: the long run lies within it, or near.
    for one in points[:18:5]:
        exact = simulate(one.rate_per_s, T4.batch_ms, BatchingRule(64), requests=200_000, seed=9).mean_ms
        assert one.simulated.mean_ms.value == pytest.approx(
            exact.value, abs=2 * (one.simulated.mean_ms.half_width + exact.half_width)
        )


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 20), st.floats(0.05, 3), st.floats(0.05, 0.8), st.floats(0.01, 100))
def test_other_units_of_time_give_the_same_answer(tau0: float, alpha: float, load: float, scale: float) -> None:
    here, there = (Replica(BatchTime(tau0 * by, alpha * by), 32, 0.5) for by in (1.0, scale))
    (one,), (other,) = (latency_curve(replica, [load], requests=LEAST) for replica in (here, there))
    assert other.rate_per_s == pytest.approx(one.rate_per_s / scale)
    assert other.bound_mean_ms == pytest.approx(scale * one.bound_mean_ms)
    assert other.simulated.mean_ms.value == pytest.approx(scale * one.simulated.mean_ms.value, rel=1e-6)
    assert other.simulated.batch_rows == pytest.approx(one.simulated.batch_rows)


def test_formulas_are_left_out_where_they_do_not_hold() -> None:
    saturated = latency_at(T4, 900, BatchingRule(64), requests=LEAST)
    assert isnan(saturated.textbook_mean_ms)
    assert isnan(saturated.bound_mean_ms)
    assert saturated.simulated.mean_ms.value > 100
    curve = Replica(BatchTime(1.0, 1.0), 16, 0.5, measured=MeasuredMs((1, 8, 16), (10.0, 10.0, 40.0)))
    found = latency_at(curve, 100, BatchingRule(16), requests=LEAST)
    assert isnan(found.textbook_mean_ms)
    assert found.simulated.mean_ms.value > 10


@pytest.mark.parametrize("load", [0.0, 1.0, -0.1, float("nan")])
def test_loads_are_shares(load: float) -> None:
    with pytest.raises(OutOfRange, match=r"load is .*: allowed is a share above 0 and below 1"):
        latency_curve(T4, [load])
