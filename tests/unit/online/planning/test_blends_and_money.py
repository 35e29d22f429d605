"""Blended latency, serverless, earning back and pipelines: published figures, limits, nonsense."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.planning.blends import cascade_blend, lookup_blend, replicas_behind
from online.planning.checks import OutOfRange
from online.planning.economics import earn_back
from online.planning.pipelines import bubble, least_micro_batches, pipeline_ms
from online.planning.prices import SERVERLESS_GB_S, SERVERLESS_REQUEST
from online.planning.serverless import (
    break_even,
    cold_start_share,
    latency_with_cold_starts_ms,
    request_price,
    serverless_per_month,
)

SHARES, COSTS = st.floats(0, 1), st.floats(0, 1e6)


def test_hybrid_of_a_hot_set_and_a_live_tier() -> None:
    found = lookup_blend(0.7, 2, 45)
    assert found.simple == pytest.approx(14.9)
    # Published without the look-up that a miss pays as well.
    assert found.whole == pytest.approx(15.5)


def test_a_cache_of_40_per_cent() -> None:
    # Published without the look-up of a miss, with one of 2 ms: 0.4 x 2 + 0.6 x 45.
    assert lookup_blend(0.4, 2, 45).simple == pytest.approx(27.8)
    assert lookup_blend(0.4, 2, 45).whole == pytest.approx(29)
    # Published in proportion to the traffic: smaller batches of the thinner rest are left out.
    assert replicas_behind(10, 0.4) == 6


def test_a_cascade() -> None:
    # The published 63 ms of what is passed on are 3 ms of the small model and 60 of the large one.
    assert cascade_blend(0.85, 3, 60).whole == pytest.approx(12)
    assert cascade_blend(0.85, 3, 63).simple == pytest.approx(12)


@given(SHARES, SHARES, COSTS, COSTS)
def test_blends_lie_between_their_ends_and_fall_with_the_share(
    one: float, other: float, first: float, second: float
) -> None:
    low, high = sorted((one, other))
    for blend in (lookup_blend, cascade_blend):
        assert blend(high, first, second).whole <= blend(low, first, second).whole + 1e-6
        assert blend(1, first, second).whole == pytest.approx(first)
        assert blend(0, first, second).whole == pytest.approx(first + second)
        assert blend(one, first, second).simple <= blend(one, first, second).whole + 1e-6


def test_lambda_against_two_machines() -> None:
    # Published without the fee of a call, which adds 0.8 % here, and with a month of 730 hours.
    price = request_price(3, 500, 0.0000166667)
    assert price == pytest.approx(0.000025, rel=1e-4)
    found = break_even(price, 2, 0.34)
    assert found.always_on_per_month == pytest.approx(496, abs=0.5)
    assert found.rate_per_s == pytest.approx(7.5, abs=0.1)
    # 496.40 over 0.0000250000.
    assert found.requests_per_month == pytest.approx(19_856_000, rel=1e-4)
    assert serverless_per_month(100, price) == pytest.approx(6570, abs=1)
    with_fee = request_price(3, 500, SERVERLESS_GB_S.value, SERVERLESS_REQUEST.value)
    assert with_fee / price == pytest.approx(1.008, abs=1e-4)
    assert break_even(with_fee, 2, 0.34).rate_per_s < found.rate_per_s


@given(st.floats(1e-9, 1), st.integers(1, 100), st.floats(0, 100))
def test_at_break_even_both_cost_the_same(price: float, machines: int, per_hour: float) -> None:
    found = break_even(price, machines, per_hour)
    assert serverless_per_month(found.rate_per_s, price) == pytest.approx(found.always_on_per_month)


def test_what_is_free_is_always_cheaper() -> None:
    assert break_even(0.0, 1, 0.34).rate_per_s == inf


def test_cold_starts_go_from_all_to_none() -> None:
    assert cold_start_share(0, 600) == 1
    assert cold_start_share(1 / 600, 600) == pytest.approx(0.368, abs=1e-3)
    assert cold_start_share(1, 600) < 1e-9
    assert latency_with_cold_starts_ms(500, 4000, 0.01) == pytest.approx(540)


def test_requests_that_earn_a_training_back() -> None:
    assert earn_back(10_000, 0.001, 0.0002).requests == 12_500_000
    assert earn_back(10_000, 0.001, 0.0002, 2_500_000).months == pytest.approx(5)
    assert earn_back(0, 0.001, 0).requests == 0


@given(st.integers(1, 64), st.integers(1, 64))
def test_the_bubble_is_what_a_schedule_leaves_idle(stages: int, micro_batches: int) -> None:
    # Each micro-batch enters a stage when it has left the one before and the one before it has left this.
    left = [0] * (stages + 1)
    for _ in range(micro_batches):
        for stage in range(1, stages + 1):
            left[stage] = max(left[stage], left[stage - 1] if stage > 1 else 0) + 1
    assert pipeline_ms(stages, micro_batches, 1.0) == left[stages]
    found = bubble(stages, micro_batches)
    assert found.idle_share == pytest.approx(1 - micro_batches / left[stages])
    assert found.over_ideal == pytest.approx(left[stages] / micro_batches - 1)


@given(st.integers(1, 64), st.floats(0.01, 0.99))
def test_the_fewest_micro_batches_for_a_bubble(stages: int, idle: float) -> None:
    least = least_micro_batches(stages, idle)
    assert bubble(stages, least).idle_share <= idle + 1e-9
    assert least == 1 or bubble(stages, least - 1).idle_share > idle - 1e-9


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lookup_blend(1.5, 2, 45), "hit_share is 1.5: allowed is a share from 0 to 1"),
        (lambda: cascade_blend(0.5, -3, 60), "first is -3: allowed is a finite number from 0 on"),
        (lambda: replicas_behind(0, 0.5), "replicas is 0: allowed is a whole number from 1 on"),
        (lambda: request_price(0, 500), "memory_gb is 0: allowed is a finite number above 0"),
        (lambda: break_even(1, 2.5, 1), "machines is 2.5: allowed is a whole number from 1 on"),  # type: ignore[arg-type]
        (lambda: cold_start_share(1, -1), "keep_warm_s is -1: allowed is"),
        (
            lambda: earn_back(1, 0.1, 0.1),
            "price_per_request is 0.1: allowed is above cost_per_request, which is 0.1",
        ),
        (lambda: bubble(0, 1), "stages is 0: allowed is a whole number from 1 on"),
        (lambda: least_micro_batches(4, 0), "most_idle_share is 0: allowed is a share above 0 and below 1"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(call: object, says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        call()  # type: ignore[operator]
