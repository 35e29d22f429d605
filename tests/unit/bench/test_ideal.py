"""The ideal device against cases done by hand, and against what is known of it in theory."""

import numpy as np
import pytest

from schemas.capacity import BatchTime
from tests.bench.ideal import ideal_latencies_ms
from tests.bench.load.arrivals import Phase, poisson

DEVICE = BatchTime(6.0, 1.2)


def latencies(*arrivals_ms: float, cap: int = 64) -> list[float]:
    return ideal_latencies_ms(np.array(arrivals_ms) / 1e3, DEVICE, cap).round(6).tolist()


def inoue_bound_ms(rate_per_ms: float, tau0: float, alpha: float) -> float:
    """Upper bound of the mean without a cap: Y. Inoue, arXiv 1912.06322, as min(phi0, phi1)."""
    load = rate_per_ms * alpha
    phi0 = (alpha + tau0) / (2 * (1 - load)) * (1 + 2 * rate_per_ms * tau0 + (1 - rate_per_ms * tau0) / (1 + load))
    phi1 = 1.5 * tau0 / (1 - load) + alpha / 2 * (load + 2) / (1 - load**2)
    return min(phi0, phi1)


def test_one_that_finds_the_device_idle_goes_alone() -> None:
    assert latencies(0.0, 100.0) == [7.2, 7.2]


def test_what_came_while_the_device_was_busy_is_one_batch() -> None:
    # The first runs from 0 to 7.2; the two that came meanwhile from there to 7.2 + 8.4.
    assert latencies(0.0, 1.0, 7.2) == [7.2, 14.6, 8.4]


def test_what_comes_after_the_batch_was_taken_waits_for_the_next() -> None:
    # 7.2 to 14.4 for the second, from there to 21.6 for the third.
    assert latencies(0.0, 1.0, 8.0) == [7.2, 13.4, 13.6]


def test_no_batch_is_larger_than_the_cap_and_the_oldest_go_first() -> None:
    assert latencies(0.0, 1.0, 2.0, 3.0, cap=2) == [7.2, 14.6, 13.6, 19.8]


def test_nothing_arrives() -> None:
    assert latencies() == []


@pytest.mark.parametrize(("rate_per_s", "mean_ms"), [(100, 9.9), (300, 15.7), (600, 35.4)])
def test_long_runs_have_the_known_means_under_inoues_bound(rate_per_s: float, mean_ms: float) -> None:
    found = ideal_latencies_ms(poisson([Phase(rate_per_s, 200_000 / rate_per_s)], seed=7), DEVICE, 10**6)
    assert found.mean() == pytest.approx(mean_ms, rel=0.02)
    assert 0.92 < found.mean() / inoue_bound_ms(rate_per_s / 1e3, 6.0, 1.2) < 1.02


def test_the_cap_costs_latency_near_saturation() -> None:
    arrivals_s = poisson([Phase(720, 60)], seed=3)
    free, capped = (ideal_latencies_ms(arrivals_s, DEVICE, cap).mean() for cap in (10**6, 64))
    assert capped > free
