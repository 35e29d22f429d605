"""Batch arithmetic: the published figures of BERT-base on a T4, the fit, and what nonsense is told."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.planning.batching import (
    MeasuredMs,
    check_rate,
    checked_time,
    fit,
    inoue_bound_ms,
    line_knee_rows,
    saturation_per_s,
    textbook,
    utilisation,
)
from online.planning.checks import OutOfRange
from schemas.capacity import BatchTime, mean_batch_rows

T4 = BatchTime(6.0, 1.2)
TIMES = st.builds(BatchTime, st.floats(0.05, 50), st.floats(0.01, 5))
SIZES = [1, 2, 4, 8, 16, 32, 64]


def test_bert_base_on_a_t4_by_batch_size() -> None:
    assert T4.batch_ms(1) == pytest.approx(7.2)
    assert T4.rows_per_s(1) == pytest.approx(139, abs=0.5)
    assert T4.rows_per_s(16) / T4.rows_per_s(1) == pytest.approx(4.6, abs=0.05)
    assert T4.rows_per_s(128) / T4.rows_per_s(16) == pytest.approx(1.26, abs=0.005)
    assert T4.batch_ms(128) / T4.batch_ms(16) == pytest.approx(6.3, abs=0.05)


def test_bert_base_on_a_t4_at_600_a_second() -> None:
    found = textbook(T4, 600)
    assert found.batch_rows == pytest.approx(12.9, abs=0.05)
    assert found.batch_ms == pytest.approx(21.4, abs=0.05)
    # Published as the latency. It takes every batch for the mean one; simulated it is 35.4 (test_simulation).
    assert found.mean_ms == pytest.approx(32.1, abs=0.05)
    assert inoue_bound_ms(T4, 600) == pytest.approx(35.5, abs=0.05)


def test_both_forms_of_the_bound_by_hand() -> None:
    # l = 0.6 a ms, l alpha = 0.72, l tau0 = 3.6: phi1 is the smaller one.
    phi0 = 7.2 / 0.56 * (1 + 7.2 - 2.6 / 1.72)
    assert phi0 == pytest.approx(86.0, abs=0.05)
    assert inoue_bound_ms(T4, 600) == pytest.approx(9 / 0.28 + 0.6 * 2.72 / 0.4816)
    # l = 0.05, l alpha = 0.06, l tau0 = 0.3: there it is phi0.
    phi0 = 7.2 / 1.88 * (1 + 0.6 + 0.7 / 1.06)
    assert phi0 < 9 / 0.94 + 0.6 * 2.06 / (1 - 0.06**2)
    assert inoue_bound_ms(T4, 50) == pytest.approx(phi0)


def test_an_exact_line_has_no_width_and_a_curve_is_told() -> None:
    exact = fit(SIZES, [T4.batch_ms(size) for size in SIZES])
    assert exact.is_linear
    assert (exact.tau0_ms.value, exact.alpha_ms.value) == (pytest.approx(6.0), pytest.approx(1.2))
    assert exact.tau0_ms.half_width == pytest.approx(0, abs=1e-6)
    curve = fit(SIZES, [6 + 0.05 * size**2 for size in SIZES])
    assert not curve.is_linear
    assert abs(curve.worst_error) > 0.1


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        times = [T4.batch_ms(size) * (1 + 0.02 * random.normal()) for size in SIZES]
        alpha = fit(SIZES, times).alpha_ms
        held += alpha.low <= 1.2 <= alpha.high
    assert 0.91 < held / 400 < 0.98


def test_between_measured_sizes_time_is_straight() -> None:
    curve = MeasuredMs((1, 4, 8), (2.0, 5.0, 20.0))
    assert [curve(size) for size in (1, 2, 4, 6, 8, 16)] == pytest.approx([2, 3, 5, 12.5, 20, 40])


def test_the_knee_of_the_line() -> None:
    assert line_knee_rows(T4) == 23
    assert line_knee_rows(BatchTime(0.0, 1.0)) == 1


@given(TIMES, st.floats(0.02, 0.5))
def test_the_knee_is_the_smallest_batch_whose_doubling_gains_less(time: BatchTime, least_gain: float) -> None:
    knee = line_knee_rows(time, least_gain)
    gain = time.rows_per_s(2 * knee) / time.rows_per_s(knee) - 1
    assert gain <= least_gain * (1 + 1e-9)
    if knee > 1:
        before = time.rows_per_s(2 * (knee - 1)) / time.rows_per_s(knee - 1) - 1
        assert before >= least_gain * (1 - 1e-9)


@given(TIMES, st.floats(0, 0.97), st.floats(0, 0.97))
def test_everything_grows_with_the_rate(time: BatchTime, one: float, other: float) -> None:
    low, high = (share * saturation_per_s(time) for share in sorted((one, other)))
    assert textbook(time, low).mean_ms <= textbook(time, high).mean_ms
    assert inoue_bound_ms(time, low) <= inoue_bound_ms(time, high) * (1 + 1e-9)
    assert mean_batch_rows(time, low) <= mean_batch_rows(time, high)
    assert utilisation(time, low, 64) <= utilisation(time, high, 64)


@given(TIMES)
def test_limits_at_no_load_and_at_saturation(time: BatchTime) -> None:
    one = time.batch_ms(1)
    # Nobody waits: the bound is then exactly a batch of one.
    assert inoue_bound_ms(time, 1e-9) == pytest.approx(one, rel=1e-4)
    # The textbook estimate is not right there, and says so: it still counts half a batch of waiting.
    assert textbook(time, 0) == (textbook(time, 1e-9))
    assert textbook(time, 0).mean_ms == pytest.approx(1.5 * one)
    near = saturation_per_s(time) * (1 - 1e-7)
    assert inoue_bound_ms(time, near) > 1e4 * min(one, time.tau0_ms)
    assert mean_batch_rows(time, 1.001 * saturation_per_s(time)) == inf
    assert mean_batch_rows(time, 2 * saturation_per_s(time), 64) == 64


@given(TIMES, st.floats(0.01, 0.95), st.floats(0.01, 100))
def test_units_other_time_units_give_the_same_answer(time: BatchTime, load: float, scale: float) -> None:
    rate = load * saturation_per_s(time)
    other = BatchTime(time.tau0_ms * scale, time.alpha_ms * scale)
    assert inoue_bound_ms(other, rate / scale) == pytest.approx(scale * inoue_bound_ms(time, rate))
    assert textbook(other, rate / scale).mean_ms == pytest.approx(scale * textbook(time, rate).mean_ms)
    assert textbook(other, rate / scale).batch_rows == pytest.approx(textbook(time, rate).batch_rows)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: checked_time(-1, 1), "tau0_ms is -1: allowed is a finite number from 0 on"),
        (lambda: checked_time(1, nan), "alpha_ms is nan: allowed is"),
        (lambda: checked_time(0, 0), "tau0_ms is 0: allowed is above 0"),
        (lambda: check_rate(T4, -1), "rate_per_s is -1: allowed is a finite number from 0 on"),
        (lambda: check_rate(T4, 900), "rate_per_s is 900: allowed is from 0 to below 833.333"),
        (lambda: check_rate(T4, 780, 64), "rate_per_s is 780: allowed is from 0 to below 772.9"),
        (lambda: inoue_bound_ms(T4, inf), "rate_per_s is inf"),
        (lambda: textbook(T4, 600, 0), "max_batch_rows is 0: allowed is a whole number from 1 on"),
        (lambda: line_knee_rows(T4, 1.0), "least_gain is 1.0: allowed is a share above 0 and below 1"),
        (lambda: fit([1, 2, 4], [1.0, 2.0, 3.0]), r"rows is \[1, 2, 4\]: allowed is at least 4 different"),
        (lambda: fit([1, 2, 4, 0], [1.0, 2.0, 3.0, 4.0]), r"rows\[3\] is 0: allowed is a whole number from 1 on"),
        (lambda: fit([1, 2, 4, 8], [1.0, 2.0, 3.0, -4.0]), r"batch_ms\[3\] is -4.0: allowed is"),
        (lambda: fit([1, 2, 4, 8], [1.0]), "batch_ms is 1 times: allowed is one for each of the 4 sizes"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(call: object, says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        call()  # type: ignore[operator]
