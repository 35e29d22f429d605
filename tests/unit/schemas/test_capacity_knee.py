"""Where larger batches stop to pay: gains of doublings, the knee, and how well a line fits."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.capacity import BatchTime, doubling_gains, knee_rows, relative_errors

T4 = BatchTime(6.0, 1.2)


def times(fit: BatchTime, rows: list[int]) -> list[float]:
    return [fit.batch_ms(b) for b in rows]


def test_the_knee_is_where_a_doubling_first_gains_under_a_tenth() -> None:
    rows = [1, 2, 4, 8, 16, 32, 64]
    # X(2b) / X(b) = 2 (6 + 1.2 b) / (6 + 2.4 b) < 1.1 exactly where b > 22.5.
    assert knee_rows(rows, times(T4, rows)) == 32
    assert knee_rows(rows[:-1], times(T4, rows[:-1])) is None
    # 2 (6 + 1.2 b) / (6 + 2.4 b) < 1.3 where b > 5.83; < 1.05 where b > 47.5
    assert knee_rows(rows, times(T4, rows), least_gain=0.3) == 8
    assert knee_rows(rows, times(T4, rows), least_gain=0.05) is None


def test_gains_of_doublings() -> None:
    # Throughput 1, 1.5, 1.5 rows/ms.
    assert doubling_gains([1, 2, 4], [1.0, 4 / 3, 8 / 3]) == [pytest.approx(0.5), pytest.approx(0.0), None]
    # From 4 to 8 where 6 was measured too: the measured doubling counts.
    assert doubling_gains([4, 6, 8], [1.0, 1.0, 1.0])[0] == pytest.approx(1.0)
    # A step of 1.5 that gains 1.5 times is as good as a doubling that doubles.
    assert doubling_gains([4, 6], [1.0, 1.0]) == [pytest.approx(1.0), None]
    # A step of 4 that gains 4 times too.
    assert doubling_gains([1, 4], [1.0, 1.0]) == [pytest.approx(1.0), None]
    assert doubling_gains([], []) == []


def test_a_device_without_fixed_time_has_its_knee_at_once() -> None:
    assert knee_rows([1, 2, 4], [1.0, 2.0, 4.0]) == 1
    assert knee_rows([5], [1.0]) is None


@given(st.sets(st.integers(1, 512), min_size=2), st.floats(0.01, 50), st.floats(0.001, 5))
def test_gains_of_a_line_fall_with_each_doubling(sizes: set[int], tau0: float, alpha: float) -> None:
    fit, rows = BatchTime(tau0, alpha), [1 << power for power in range(9)]
    gains = [gain for gain in doubling_gains(rows, times(fit, rows)) if gain is not None]
    assert all(later < earlier for earlier, later in pairwise(gains))
    assert all(0 < gain < 1 for gain in gains)
    # However the sizes lie, a gain is a doubling's: between nothing and twice the throughput.
    some = sorted(sizes)
    assert all(gain is None or -1e-9 < gain < 1 for gain in doubling_gains(some, times(fit, some)))


def test_errors_of_a_fit() -> None:
    assert relative_errors(T4, [1, 10], [7.2, 20.0]) == [pytest.approx(0.0), pytest.approx(-0.1)]


@pytest.mark.parametrize(
    ("rows", "ms"), [([2, 1], [1.0, 1.0]), ([1, 1], [1.0, 1.0]), ([1], [0.0]), ([0], [1.0]), ([1], [])]
)
def test_what_was_not_measured_has_no_gain(rows: list[int], ms: list[float]) -> None:
    with pytest.raises(ValueError, match="gains need"):
        doubling_gains(rows, ms)
