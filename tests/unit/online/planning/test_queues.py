"""Queues without batching, against the published example and a simulated device that takes one at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.planning.checks import OutOfRange
from online.planning.device_queue import BatchingRule
from online.planning.queues import least_replicas, md1, mm1, mm1_quantile_ms, provisions
from online.planning.simulation import simulate


def test_six_replicas_for_600_a_second_at_7_2_ms() -> None:
    # The published count holds one spare, and its wait is of the five that work.
    assert least_replicas(600, 7.2, spare=1) == 6
    # Published by M/M/1, which takes the service time for exponential although a batch of one always takes 7.2 ms.
    five = mm1(600 / 5, 7.2)
    assert five.utilisation == pytest.approx(0.864)
    assert five.wait_ms == pytest.approx(45.7, abs=0.05)
    assert five.latency_ms == pytest.approx(52.9, abs=0.05)
    # With the constant service time that it is, they wait half as long.
    assert md1(600 / 5, 7.2).wait_ms == pytest.approx(45.74 / 2, abs=0.01)


@pytest.mark.parametrize("rate_per_s", [20, 80, 110])
def test_a_device_that_takes_one_at_a_time_is_an_md1_queue(rate_per_s: float) -> None:
    found = simulate(rate_per_s, lambda rows: 7.2 * rows, BatchingRule(max_batch_rows=1), requests=60_000)
    assert found.mean_ms.value == pytest.approx(
        md1(rate_per_s, 7.2).latency_ms, abs=1.5 * found.mean_ms.half_width
    )
    assert found.busy_share == pytest.approx(rate_per_s * 7.2e-3, rel=0.03)


@given(st.floats(0.01, 1e4), st.floats(0, 0.999), st.floats(0, 0.999))
def test_waits_grow_with_the_rate(service_ms: float, one: float, other: float) -> None:
    low, high = (share * 1e3 / service_ms for share in sorted((one, other)))
    for queue in (mm1, md1):
        assert queue(low, service_ms).wait_ms <= queue(high, service_ms).wait_ms
        assert queue(0, service_ms).latency_ms == service_ms
    assert md1(high, service_ms).latency_ms <= mm1(high, service_ms).latency_ms


@given(st.floats(0.01, 1e4), st.floats(0.01, 0.99), st.floats(0.01, 100))
def test_limits_at_no_load_and_at_saturation_and_units(service_ms: float, load: float, scale: float) -> None:
    for queue in (mm1, md1):
        assert queue(0, service_ms).latency_ms == service_ms
        assert queue((1 - 1e-7) * 1e3 / service_ms, service_ms).wait_ms > 1e6 * service_ms
        rate = load * 1e3 / service_ms
        assert queue(rate / scale, service_ms * scale).wait_ms == pytest.approx(
            scale * queue(rate, service_ms).wait_ms
        )


def test_quantiles_of_an_exponential_latency() -> None:
    assert mm1_quantile_ms(0, 10, 0.5) == pytest.approx(6.93, abs=0.01)
    assert mm1_quantile_ms(0, 10, 0.99) == pytest.approx(46.05, abs=0.01)


def test_the_fewest_that_keep_up_are_never_saturated() -> None:
    assert least_replicas(0, 7.2) == 1
    assert least_replicas(600, 7.2) == 5
    assert least_replicas(500, 2.0) == 2  # one would be busy exactly all the time


def test_what_over_provisioning_buys_and_costs() -> None:
    steps = provisions(600, 7.2, price_per_month=300, more=2)
    assert [step.replicas for step in steps] == [5, 6, 7]
    assert [step.over_fewest_per_month for step in steps] == [0, 300, 600]
    assert steps[0].mm1.wait_ms > steps[1].mm1.wait_ms > steps[2].mm1.wait_ms


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mm1(-1, 7.2), "rate_per_s is -1: allowed is a finite number from 0 on"),
        (lambda: md1(139, 7.2), "rate_per_s is 139: allowed is from 0 to below 138.889"),
        (lambda: mm1(1, 0), "service_ms is 0: allowed is a finite number above 0"),
        (lambda: mm1_quantile_ms(1, 1, 1), "share is 1: allowed is from 0 to below 1"),
        (lambda: provisions(1, 1, -5), "price_per_month is -5: allowed is a finite number from 0 on"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(call: object, says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        call()  # type: ignore[operator]
