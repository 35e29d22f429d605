"""The simulation against cases done by hand, the published figure, Inoue's bound, and another simulation."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online.planning.batching import inoue_bound_ms, saturation_per_s
from online.planning.checks import OutOfRange
from online.planning.device_queue import BatchingRule, run
from online.planning.intervals import student_t
from online.planning.simulation import poisson_ms, simulate
from schemas.capacity import BatchTime
from tests.bench.ideal import ideal_latencies_ms

T4 = BatchTime(6.0, 1.2)


def latencies(*arrivals_ms: float, **rule: float) -> list[float]:
    found = run(np.array(arrivals_ms), T4.batch_ms, BatchingRule(**rule))  # type: ignore[arg-type]
    return found.latency_ms.round(6).tolist()


def test_bert_base_on_a_t4_at_600_a_second() -> None:
    found = simulate(600, T4.batch_ms, requests=1_000_000)
    assert found.mean_ms.value == pytest.approx(35.4, abs=0.5)
    assert found.mean_ms.half_width < 0.3
    assert found.mean_ms.low <= inoue_bound_ms(T4, 600)


def test_what_comes_while_the_device_is_busy_is_one_batch() -> None:
    assert latencies(0.0, 1.0, 7.2) == [7.2, 14.6, 8.4]
    assert latencies(0.0, 100.0) == [7.2, 7.2]


def test_the_cap_takes_the_oldest_first() -> None:
    assert latencies(0.0, 1.0, 2.0, 3.0, max_batch_rows=2) == [7.2, 14.6, 13.6, 19.8]


def test_an_idle_device_waits_for_company_and_one_that_has_just_finished_does_not() -> None:
    # From 0 to 4 it waits, then takes both; the third came meanwhile and goes at once.
    assert latencies(0.0, 3.0, 5.0, max_delay_ms=4) == [12.4, 9.4, 14.6]
    # The window closes early where the batch is full.
    assert latencies(0.0, 1.0, max_delay_ms=4, max_batch_rows=2) == [9.4, 8.4]


def test_who_would_be_late_is_dropped_and_costs_the_device_nothing() -> None:
    # Alone 7.2. At 7.2 the second has waited 6.2 and would end at 14.4 after 13.4: late. The third is in time.
    assert latencies(0.0, 1.0, 6.0, deadline_ms=10) == pytest.approx([7.2, np.nan, 8.4], nan_ok=True)
    # Nobody can ever be in time.
    assert np.isnan(latencies(0.0, 1.0, deadline_ms=5)).all()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 200), min_size=1, max_size=60).map(sorted),
    st.integers(1, 20),
    st.floats(0, 20),
    st.one_of(st.just(inf), st.floats(7.3, 100)),
)
def test_every_request_is_answered_once_or_dropped(
    arrivals: list[float], cap: int, delay_ms: float, deadline_ms: float
) -> None:
    found = run(np.array(arrivals), T4.batch_ms, BatchingRule(cap, delay_ms, deadline_ms))
    answered = found.latency_ms[~np.isnan(found.latency_ms)]
    assert found.batch_rows.sum() == len(answered)
    assert len(answered) > 0 or deadline_ms < 7.2 + delay_ms
    assert (found.batch_rows <= cap).all()
    assert (answered >= 7.2 - 1e-9).all()
    assert (answered <= deadline_ms + 1e-9).all()
    if deadline_ms == inf:
        assert len(answered) == len(arrivals)


def one_after_the_other(arrivals: list[float], cap: int, delay_ms: float, deadline_ms: float) -> list[float]:
    """The same rules, followed request by request as they are written down."""
    waiting, latency_ms, free_ms = list(range(len(arrivals))), [np.nan] * len(arrivals), -inf
    while waiting:
        first = waiting[0]
        begins_ms = max(arrivals[first], free_ms)
        if arrivals[first] > free_ms:  # idle: until the window closes, or the batch is full
            full = arrivals[waiting[cap - 1]] if len(waiting) >= cap else inf
            begins_ms = min(arrivals[first] + delay_ms, full)
        batch = [one for one in waiting if arrivals[one] <= begins_ms][:cap]
        if not batch:
            continue
        ends_ms = begins_ms + T4.batch_ms(len(batch))
        if ends_ms - arrivals[first] > deadline_ms:
            waiting.remove(first)
            # The device has begun to choose: those that are there by then are next.
            free_ms = max(free_ms, begins_ms)
            continue
        for one in batch:
            latency_ms[one] = ends_ms - arrivals[one]
            waiting.remove(one)
        free_ms = ends_ms
    return latency_ms


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 400), st.integers(0, 400).map(float)), min_size=1, max_size=50).map(sorted),
    st.integers(1, 8),
    st.sampled_from([0.0, 3.0, 20.0]),
    st.sampled_from([inf, inf, 5.0, 10.0, 40.0]),
)
def test_it_follows_the_rules_request_by_request(
    arrivals: list[float], cap: int, delay_ms: float, deadline_ms: float
) -> None:
    found = run(np.array(arrivals), T4.batch_ms, BatchingRule(cap, delay_ms, deadline_ms))
    expected = one_after_the_other(arrivals, cap, delay_ms, deadline_ms)
    assert found.latency_ms == pytest.approx(np.array(expected), nan_ok=True, abs=1e-9)
    answered = ~np.isnan(found.latency_ms)
    # Each request knows the rows of its batch.
    assert sum(1 / found.rows[answered]) == pytest.approx(len(found.batch_rows))


@pytest.mark.parametrize("cap", [1, 7, 64, 10**6])
def test_it_agrees_with_the_benchmarks_ideal_device(cap: int) -> None:
    arrivals_ms = poisson_ms(500, 5_000, seed=3)
    found = run(arrivals_ms, T4.batch_ms, BatchingRule(cap)).latency_ms
    assert found == pytest.approx(ideal_latencies_ms(arrivals_ms / 1e3, T4, cap))


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 30), st.floats(0.1, 3), st.floats(0.02, 0.9), st.integers(0, 10**6))
def test_no_mean_is_above_inoues_bound(tau0_ms: float, alpha_ms: float, load: float, seed: int) -> None:
    time = BatchTime(tau0_ms, alpha_ms)
    rate = load * saturation_per_s(time)
    found = simulate(rate, time.batch_ms, requests=12_800, seed=seed, confidence=0.9999)
    assert found.mean_ms.low <= inoue_bound_ms(time, rate)
    assert found.mean_ms.value >= 0.8 * inoue_bound_ms(time, rate)


def test_latency_grows_with_the_rate_and_begins_at_a_batch_of_one() -> None:
    means = [
        simulate(rate, T4.batch_ms, BatchingRule(64), requests=20_000).mean_ms.value for rate in (1, 200, 500, 700)
    ]
    assert means == sorted(means)
    assert means[0] == pytest.approx(7.2, rel=0.01)


def test_a_saturated_device_drops_what_it_cannot_do_in_time() -> None:
    capacity = T4.rows_per_s(64)
    found = simulate(2 * capacity, T4.batch_ms, BatchingRule(64, deadline_ms=200), requests=20_000)
    assert found.dropped_share == pytest.approx(0.5, abs=0.03)
    assert found.busy_share == pytest.approx(1, abs=0.01)
    assert found.p99_ms.value <= 200


def test_other_seeds_fall_into_the_interval_as_often_as_it_says() -> None:
    truth = simulate(400, T4.batch_ms, requests=400_000, seed=99).mean_ms.value
    means = [simulate(400, T4.batch_ms, requests=12_800, seed=seed).mean_ms for seed in range(60)]
    assert sum(mean.low <= truth <= mean.high for mean in means) >= 52
    assert simulate(400, T4.batch_ms, requests=6_400, seed=4) == simulate(400, T4.batch_ms, requests=6_400, seed=4)


@pytest.mark.parametrize(
    ("confidence", "degrees", "t"), [(0.95, 1, 12.706), (0.95, 5, 2.571), (0.95, 31, 2.040), (0.999, 31, 3.633)]
)
def test_students_t(confidence: float, degrees: int, t: float) -> None:
    assert student_t(confidence, degrees) == pytest.approx(t, abs=6e-4)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rate_per_s": 0}, "rate_per_s is 0: allowed is a finite number above 0"),
        ({"rule": BatchingRule(0)}, "max_batch_rows is 0: allowed is a whole number from 1 on"),
        ({"rule": BatchingRule(max_delay_ms=-1)}, "max_delay_ms is -1: allowed is a finite number from 0 on"),
        ({"rule": BatchingRule(deadline_ms=0)}, "deadline_ms is 0: allowed is above 0"),
        ({"requests": 100}, "requests is 100: allowed is at least 6,400"),
        ({"confidence": 1.0}, "confidence is 1.0: allowed is above 0 and below 1"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(change: dict[str, object], says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        simulate(**{"rate_per_s": 100, "batch_ms": T4.batch_ms, "requests": 6_400, **change})  # type: ignore[arg-type]
