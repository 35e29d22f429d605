"""T(b) fitted while serving: it finds the truth, follows a change, and one slow batch does not throw it off."""

import random

import pytest

from online.inference.worker.time_model import OnlineBatchTime
from schemas.capacity import BatchTime

MEASURED = BatchTime(6.0, 1.2)


def run(model: OnlineBatchTime, truth: BatchTime, sizes: list[int], batches: int) -> None:
    rng = random.Random(1)
    for _ in range(batches):
        rows = rng.choice(sizes)
        model.observe(rows, truth.batch_ms(rows) * rng.uniform(0.98, 1.02))


def test_it_starts_as_measured() -> None:
    assert OnlineBatchTime(MEASURED, 64).fit == MEASURED


def test_it_finds_another_truth() -> None:
    model = OnlineBatchTime(MEASURED, 64)
    truth = BatchTime(3.0, 0.5)
    run(model, truth, [1, 4, 9, 20, 40, 64], 300)
    for rows in (1, 8, 64):
        assert model.fit.batch_ms(rows) == pytest.approx(truth.batch_ms(rows), rel=0.06)


def test_with_one_size_only_that_size_is_right_and_the_line_keeps_its_shape() -> None:
    model = OnlineBatchTime(MEASURED, 64)
    run(model, BatchTime(8.0, 1.6), [64], 300)
    assert model.fit.batch_ms(64) == pytest.approx(8 + 1.6 * 64, rel=0.05)
    assert MEASURED.batch_ms(1) * 0.5 < model.fit.batch_ms(1) < 2 * (8 + 1.6)


def test_one_slow_batch_changes_little() -> None:
    model = OnlineBatchTime(MEASURED, 64)
    run(model, MEASURED, [1, 8, 64], 100)
    model.observe(1, 5_000.0)
    assert model.fit.batch_ms(64) == pytest.approx(MEASURED.batch_ms(64), rel=0.05)
    assert model.fit.batch_ms(1) == pytest.approx(MEASURED.batch_ms(1), rel=0.3)


def test_a_device_that_became_slow_is_believed_after_some_batches() -> None:
    model = OnlineBatchTime(MEASURED, 64)
    run(model, BatchTime(60.0, 12.0), [1, 8, 64], 400)
    assert model.fit.batch_ms(8) == pytest.approx(60 + 96, rel=0.1)


def test_neither_part_is_ever_negative() -> None:
    model = OnlineBatchTime(MEASURED, 64)
    for rows, ms in ((1, 50.0), (64, 10.0), (64, 10.0), (1, 60.0)) * 50:
        model.observe(rows, ms)
        assert model.fit.tau0_ms >= 0
        assert model.fit.alpha_ms >= 0
