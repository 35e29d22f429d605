"""Sizes of fleets: the order of the steps, thinner traffic, cold stores, budget, and nonsense."""

from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online.planning.batching import MeasuredMs
from online.planning.checks import OutOfRange
from online.planning.device_queue import BatchingRule
from online.planning.outside import Outside
from online.planning.replica import Goal, Replica, size_batch, table_of_batches
from online.planning.simulation import simulate
from online.planning.sizing import affordable_replicas, size
from online.planning.traffic import Traffic
from schemas.capacity import BatchTime, replica_rows_per_s

T4 = Replica(BatchTime(6.0, 1.2), 64, price_per_hour=0.5)
GOAL = Goal(p99_ms=50)
MONTH = 1e9


def test_the_batch_is_the_smaller_of_knee_and_half_the_budget() -> None:
    tight = size_batch(T4, Goal(p99_ms=50))
    # 6 + 1.2 b within 25 ms: 15 rows, 24 ms, 625 rows a second, of which 0.6.
    assert (tight.fitting_rows, tight.knee_rows, tight.rows) == (15, 23, 15)
    assert tight.per_replica_per_s == pytest.approx(375)
    assert tight.queue_delay_ms == pytest.approx(50 - 2 * 24)
    loose = size_batch(T4, Goal(p99_ms=200))
    assert (loose.fitting_rows, loose.rows) == (64, 23)
    # The rule of the gate and the site, for the same batch.
    assert loose.per_replica_per_s == pytest.approx(replica_rows_per_s(T4.time, 23, 100.0))


def test_a_measured_knee_counts_before_the_lines() -> None:
    assert size_batch(Replica(T4.time, 64, 0.5, knee=8), Goal(200)).rows == 8


def test_what_is_spent_outside_the_device_shortens_the_budget() -> None:
    near = Replica(T4.time, 64, 0.5, outside=Outside(10))
    assert size_batch(near, GOAL).rows == 11  # 6 + 1.2 b within 20 ms
    (fleet,) = size(near, Traffic(600, MONTH), GOAL)
    assert fleet.mean_ms > 10 + T4.batch_ms(1)


def test_where_no_line_fits_the_measured_sizes_count() -> None:
    curve = MeasuredMs((1, 8, 16, 64), (10.0, 10.0, 40.0, 500.0))
    replica = Replica(BatchTime(1.0, 1.0), 64, 0.5, knee=8, measured=curve)
    found = size_batch(replica, Goal(p99_ms=60))
    assert (found.rows, found.batch_ms) == (8, 10.0)
    assert found.fitting_rows == 13  # 10 + 30 / 8 each row more, within 30 ms


def test_the_hot_set_leaves_less_traffic_in_smaller_batches() -> None:
    traffic = Traffic.of_shares(2000, hit_share=0.7, cache_share=0.5, requests_per_month=MONTH, hit_ms=1.0)
    live, hot, cached = size(T4, traffic, GOAL)
    assert [one.scenario.name for one in (live, hot, cached)] == ["all live", "hot set", "hot set and cache"]
    assert [one.scenario.live_per_s for one in (live, hot, cached)] == pytest.approx([2000, 600, 300])
    assert [one.replicas for one in (live, hot, cached)] == [6, 2, 1]
    assert live.cost_per_month == pytest.approx(6 * 0.5 * 730)
    assert live.cost_per_million == pytest.approx(6 * 0.5 * 730 / 1000)
    assert live.load == pytest.approx(2000 / 6 / 625)
    for fleet in (live, hot, cached):
        assert fleet.is_in_time
        assert fleet.p50_ms < fleet.p99_ms <= 50
    # The same device at a tenth of the traffic fills a tenth of the batch, and so does worse for its price.
    assert size(T4, Traffic(60, MONTH), GOAL)[0].batch_rows < live.batch_rows
    assert hot.all_mean_ms == pytest.approx(0.7 * 1.0 + 0.3 * hot.mean_ms)


def test_a_fleet_sized_with_the_hot_set_cannot_do_without_it() -> None:
    live, hot = size(T4, Traffic.of_shares(2000, hit_share=0.9, requests_per_month=MONTH), GOAL)
    assert live.cold is None
    assert hot.cold is not None
    assert hot.cold.replicas == live.replicas
    assert hot.cold.load > 1
    assert hot.cold.in_time_share < 0.6
    _, mild = size(T4, Traffic.of_shares(400, hit_share=0.1, requests_per_month=MONTH), GOAL)
    assert mild.cold is not None
    assert mild.cold.in_time_share > 0.97
    assert isnan(hot.all_mean_ms)  # what a hit takes was not said


def test_nothing_is_left_to_do() -> None:
    _, hot = size(T4, Traffic.of_shares(100, hit_share=1.0, requests_per_month=MONTH, hit_ms=1.0), GOAL)
    assert (hot.replicas, hot.cost_per_month, hot.all_mean_ms) == (0, 0, 1.0)
    assert hot.cold is not None
    assert hot.cold.in_time_share == 0


def test_a_goal_near_a_single_batch_costs_replicas() -> None:
    (fleet,) = size(T4, Traffic(600, MONTH), Goal(p99_ms=13), requests=20_000)
    assert fleet.by_rate == 8  # a batch of one within 6.5 ms is not to be had: 139 a second each, of which 0.6
    assert fleet.replicas > fleet.by_rate
    assert fleet.p99_ms <= 13


@pytest.mark.parametrize(("rate_per_s", "p99_ms"), [(60, 14), (150, 15), (300, 18), (300, 31)])
def test_the_fewest_are_found_as_by_trying_one_after_the_other(rate_per_s: float, p99_ms: float) -> None:
    traffic = Traffic.of_shares(rate_per_s, hit_share=0.4, cache_share=0.5, requests_per_month=MONTH)
    for fleet in size(T4, traffic, Goal(p99_ms), requests=6_400):
        tried = fleet.by_rate
        while True:
            rate = fleet.scenario.live_per_s / tried
            found = simulate(rate, T4.batch_ms, BatchingRule(64), requests=6_400, seed=1)
            if found.p99_ms.value <= p99_ms:
                break
            tried += 1
        assert fleet.replicas == tried
        assert fleet.p99_ms == found.p99_ms.value


def test_the_budget_is_judged() -> None:
    (rich,) = size(T4, Traffic(2000, MONTH), Goal(50, budget_per_month=2190))
    (poor,) = size(T4, Traffic(2000, MONTH), Goal(50, budget_per_month=2189))
    assert (rich.is_in_budget, poor.is_in_budget) == (True, False)
    assert affordable_replicas(0.5, 2190) == 6
    assert affordable_replicas(0.5, 2189) == 5


@settings(max_examples=20, deadline=None)
@given(st.floats(1, 20_000), st.floats(1, 20_000))
def test_more_traffic_never_needs_fewer(one: float, other: float) -> None:
    low, high = sorted((one, other))
    (less,), (more,) = (size(T4, Traffic(rate, MONTH), GOAL, requests=6_400) for rate in (low, high))
    assert less.by_rate <= more.by_rate
    assert less.replicas <= more.replicas
    assert less.replicas >= 1


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_limits_at_no_traffic_and_other_units(scale: float) -> None:
    """In a world `scale` times as slow everything takes so much longer, and as many replicas do it."""
    slow = Replica(BatchTime(6.0 * scale, 1.2 * scale), 64, price_per_hour=0.5)
    (fleet,) = size(slow, Traffic(2000 / scale, MONTH), Goal(50 * scale), requests=6_400)
    assert fleet.replicas == 6
    assert fleet.p99_ms == pytest.approx(scale * size(T4, Traffic(2000, MONTH), GOAL, requests=6_400)[0].p99_ms)
    (idle,) = size(slow, Traffic(1e-3 / scale, MONTH), Goal(50 * scale), requests=6_400)
    assert (idle.replicas, idle.load) == (1, pytest.approx(0, abs=1e-5))
    assert idle.p50_ms == pytest.approx(7.2 * scale)


def test_no_part_of_a_plan_grows_with_the_hit_share() -> None:
    found = [
        size(T4, Traffic.of_shares(3000, hit_share=share, requests_per_month=MONTH), GOAL, requests=6_400)[1]
        for share in (0.0, 0.3, 0.6, 0.9, 0.99)
    ]
    for values in ([one.replicas for one in found], [one.cost_per_million for one in found]):
        assert values == sorted(values, reverse=True)
    assert [one.cold.replicas for one in found if one.cold] == [8] * 5


def test_the_table_of_batches() -> None:
    rows = table_of_batches(Replica(BatchTime(6.0, 1.2), 20, 0.5))
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 20]
    assert rows[0][1:3] == (pytest.approx(7.2), pytest.approx(1e3 / 7.2))
    assert rows[0][3] == pytest.approx(2 * 7.2 / 8.4 - 1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: size_batch(T4, Goal(7)), "p99_ms is 7: allowed is at least 7.2, what one request alone takes"),
        (lambda: Goal(0), "p99_ms is 0: allowed is a finite number above 0"),
        (lambda: Goal(50, utilisation=1), "utilisation is 1: allowed is a share above 0 and below 1"),
        (lambda: Goal(50, budget_per_month=-1), "budget_per_month is -1: allowed is a finite number above 0"),
        (lambda: Replica(T4.time, 0, 1), "max_batch_rows is 0: allowed is a whole number from 1 on"),
        (lambda: Replica(T4.time, 1, -1), "price_per_hour is -1: allowed is a finite number from 0 on"),
        (lambda: Traffic(0, 1), "peak_per_s is 0: allowed is a finite number above 0"),
        (lambda: Traffic(10, 1, 11), "hot_missed_per_s is 11: allowed is from 0 to 10, of which it is a part"),
        (lambda: Traffic(10, 1, 5, 6), "cache_missed_per_s is 6: allowed is from 0 to 5"),
        (
            lambda: Traffic.of_shares(10, hit_share=2, requests_per_month=1),
            "hit_share is 2: allowed is a share from",
        ),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(call: object, says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        call()  # type: ignore[operator]
