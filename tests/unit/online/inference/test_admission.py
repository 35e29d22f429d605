"""The predicted time to an answer, against cases computed by hand. T(b) = 6 + b ms, at most 8 rows."""

import pytest

from online.inference.worker.admission import Admission
from schemas.capacity import BatchTime

TIME = BatchTime(6.0, 1.0)
NOW = 10**12


def answer_ms(admission: Admission, rows: int, before: int, free_in_ms: float = 0.0) -> float:
    return round(admission.answer_ms(TIME, rows, before, free_in_ms, NOW) / 1.1, 6)  # without the slack


def test_alone_on_a_free_device_it_is_one_small_batch() -> None:
    assert answer_ms(Admission(8, 1), rows=1, before=0) == 7.0


def test_behind_a_running_batch() -> None:
    assert answer_ms(Admission(8, 1), rows=2, before=1, free_in_ms=5.0) == 5.0 + 9.0


def test_full_batches_go_before() -> None:
    # 17 rows wait: two whole batches of 14 ms, then one of the row left and these two.
    assert answer_ms(Admission(8, 1), rows=2, before=17) == 2 * 14.0 + 9.0


def test_several_instances_share_what_goes_before() -> None:
    assert answer_ms(Admission(8, 2), rows=2, before=17) == 14.0 + 9.0


def test_more_rows_than_a_batch_count_as_several() -> None:
    assert answer_ms(Admission(8, 1), rows=20, before=0) == 2 * 14.0 + 10.0


def test_under_load_the_own_batch_counts_as_full() -> None:
    admission = Admission(8, 1)
    for moment in range(2000):
        admission.took(1, NOW - (2000 - moment) * 1_000_000)  # a row each millisecond
    assert answer_ms(admission, rows=1, before=0, free_in_ms=4.0) == pytest.approx(4.0 + 6.0 + 5.0)
    assert answer_ms(admission, rows=1, before=0, free_in_ms=10.0) == 10.0 + 14.0
    # Ten seconds of silence later it does not; what little is left of the rate is rounded up to a row.
    assert admission.answer_ms(TIME, 1, 0, 10.0, NOW + 10**10) <= 1.1 * 18.0
