"""What an answer takes outside queue and device: found from measured answers, and part of what is predicted."""

import numpy as np
import pytest

from online.planning.checks import OutOfRange
from online.planning.device_queue import BatchingRule
from online.planning.outside import NOTHING, Outside, fit_outside
from online.planning.replica import Goal, Replica, size_batch
from online.planning.simulation import simulate
from online.planning.sizing import size
from online.planning.traffic import Traffic
from schemas.capacity import BatchTime

T4 = BatchTime(6.0, 1.2)


def test_a_line_is_found_and_stalls_do_not_bend_it() -> None:
    rows = np.repeat([1, 2, 4, 8, 16, 32], 100)
    line_ms = 2.0 + 0.05 * rows
    found = fit_outside(line_ms, rows)
    assert (found.fixed_ms, found.row_ms) == (pytest.approx(2.0), pytest.approx(0.05))
    stalled_ms = np.where(np.arange(600) % 30 == 0, line_ms + 100, line_ms)
    found = fit_outside(stalled_ms, rows)
    assert (found.fixed_ms, found.row_ms) == (pytest.approx(2.0, rel=0.03), pytest.approx(0.05, rel=0.1))


def test_how_often_a_value_came_counts_as_if_it_were_written_out() -> None:
    random = np.random.default_rng(1)
    rows = random.integers(1, 20, 500)
    outside_ms = 1 + 0.1 * rows + random.exponential(0.3, 500)
    often = random.integers(1, 5, 500)
    one, other = (
        fit_outside(outside_ms, rows, often),
        fit_outside(np.repeat(outside_ms, often), np.repeat(rows, often)),
    )
    assert (one.fixed_ms, one.row_ms) == (pytest.approx(other.fixed_ms), pytest.approx(other.row_ms))


@pytest.mark.parametrize("rows", [np.ones(300, np.int64), np.repeat([1, 2, 3], 100), np.repeat([1, 9], [300, 5])])
def test_nothing_is_said_of_rows_where_batches_hardly_differ(rows: np.ndarray) -> None:
    found = fit_outside(2.0 + 0.5 * rows, rows)
    assert found.row_ms == 0
    assert found.fixed_ms > 2


def test_a_device_that_is_faster_with_company_is_not_believed() -> None:
    rows = np.repeat([1, 20], 100)
    assert fit_outside(3.0 - 0.05 * rows, rows).row_ms == 0


def test_it_is_added_to_every_latency_by_the_rows_of_its_batch() -> None:
    plain = simulate(600, T4.batch_ms, BatchingRule(64), requests=20_000)
    later = simulate(600, T4.batch_ms, BatchingRule(64), Outside(2.0), requests=20_000)
    assert later.mean_ms.value == pytest.approx(plain.mean_ms.value + 2)
    assert later.p99_ms.value == pytest.approx(plain.p99_ms.value + 2)
    rows = simulate(600, T4.batch_ms, BatchingRule(64), Outside(2.0, 0.1), requests=20_000)
    # A request is in a batch of more rows than a batch has: larger batches have more requests.
    assert rows.mean_ms.value > later.mean_ms.value + 0.1 * plain.batch_rows
    # The mean of 64 batches of one row is one row's.
    idle = simulate(1, T4.batch_ms, BatchingRule(64), Outside(2.0, 0.1), requests=6_400)
    assert idle.p50_ms == pytest.approx(7.2 + 2.1)


def test_what_rows_take_outside_makes_the_batch_smaller() -> None:
    # 2 (6 + 1.2 b) + 0.4 b within 50 - 2: 36 / 2.8, 12 rows.
    replica = Replica(T4, 64, 0.5, outside=Outside(2.0, 0.4))
    batch = size_batch(replica, Goal(50))
    assert (batch.fitting_rows, batch.rows) == (12, 12)
    assert batch.queue_delay_ms == pytest.approx(48 - 2 * 20.4 - 0.4 * 12)
    (with_rows,) = size(replica, Traffic(2000, 1e9), Goal(50))
    (without,) = size(Replica(T4, 64, 0.5, outside=Outside(2.0)), Traffic(2000, 1e9), Goal(50))
    assert with_rows.replicas >= without.replicas
    assert with_rows.p99_ms <= 50
    with pytest.raises(OutOfRange, match=r"p99_ms is 9: allowed is at least 9\.6, what one request alone takes"):
        size_batch(replica, Goal(9))


def test_more_for_everybody_and_nonsense() -> None:
    assert Outside(2.0, 0.1).later(3.0) == Outside(5.0, 0.1)
    assert Outside(2.0, 0.1).mean_ms(10) == pytest.approx(3.0)
    assert NOTHING.mean_ms(64) == 0
    with pytest.raises(OutOfRange, match=r"outside_ms is -1\.0: allowed is a finite number from 0 on"):
        Outside(-1.0)
    with pytest.raises(OutOfRange, match="outside_row_ms is nan: allowed is a finite number from 0 on"):
        Outside(0.0, float("nan"))
