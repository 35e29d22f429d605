"""Replicas for a peak against cases computed by hand, and against a search over the batches that traffic makes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.capacity import TARGET_UTILISATION, BatchTime, mean_batch_rows, size_fleet

T4 = BatchTime(6.0, 1.2)


def test_by_hand() -> None:
    """(50 - 6) / 1.2 = 36 rows in 49.2 ms: 0.6 x 36 / 49.2 ms = 439 rows/s of one replica.

    1,000 rows/s are 2.28 of these, so 3, each with 333.3 rows/s: b = 0.3333 x 6 / (1 - 0.3333 x 1.2) = 3.333 rows
    in 6 + 1.2 x 3.333 = 10 ms, 3 ms a row.
    """
    found = size_fleet(T4, 64, 1000.0, 50.0)
    assert (found.replicas, found.largest_rows) == (3, 36)
    assert found.per_replica_per_s == pytest.approx(439.02, abs=0.01)
    assert found.load == pytest.approx(2.2778, abs=1e-4)
    assert found.batch_rows == pytest.approx(10 / 3)
    assert (found.batch_ms, found.row_ms) == (pytest.approx(10.0), pytest.approx(3.0))


def test_a_lighter_tail_makes_smaller_batches_whose_rows_are_dearer() -> None:
    """200 rows/s on one replica: b = 0.2 x 6 / (1 - 0.24) = 1.579 rows in 7.895 ms, 5 ms a row instead of 3."""
    heavy, light = size_fleet(T4, 64, 1000.0, 50.0), size_fleet(T4, 64, 200.0, 50.0)
    assert (light.replicas, light.batch_rows) == (1, pytest.approx(1.2 / 0.76))
    assert light.row_ms == pytest.approx(5.0)
    assert light.row_ms > heavy.row_ms


def test_no_traffic_needs_none_and_a_batch_is_never_less_than_a_row() -> None:
    found = size_fleet(T4, 64, 0.0, 50.0)
    assert (found.replicas, found.load, found.each_per_s, found.batch_rows) == (0, 0.0, 0.0, 1.0)
    assert size_fleet(T4, 64, 0.5, 50.0).batch_rows == 1.0


def test_one_row_that_takes_too_long_counts_as_a_batch() -> None:
    """T(1) = 81.2 ms of 50 allowed: 0.6 / 81.2 ms = 7.39 rows/s, so 10 rows/s take 2."""
    found = size_fleet(BatchTime(80.0, 1.2), 64, 10.0, 50.0)
    assert (found.largest_rows, found.replicas) == (1, 2)


@given(st.floats(0.1, 40), st.floats(0.05, 8), st.integers(1, 128), st.floats(1, 20_000))
def test_the_fewest_whose_batches_fit_when_the_peak_comes_with_its_headroom(
    tau0_ms: float, alpha_ms: float, cap: int, peak_per_s: float
) -> None:
    time, most_ms = BatchTime(tau0_ms, alpha_ms), 50.0
    found = size_fleet(time, cap, peak_per_s, most_ms)

    def fits(replicas: int) -> bool:
        """What comes while a batch of the largest size runs is not more than that batch."""
        rows = mean_batch_rows(time, peak_per_s / TARGET_UTILISATION / replicas)
        return rows <= found.largest_rows * (1 + 1e-9)

    assert fits(found.replicas)
    if found.replicas > 1 and (found.load % 1 > 1e-6):
        assert not fits(found.replicas - 1)
