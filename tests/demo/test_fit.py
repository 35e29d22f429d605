"""Fitting the demo's network: it begins at the regression, keeps its best epoch, and is calibrated by days."""

import numpy as np
import pytest
import torch

from infra.demo import fit
from infra.demo.fit import Examples, Regression
from infra.demo.model import LATE_HEAD, DelayNet

SIZES = (4, 3)


@pytest.fixture(scope="module")
def examples() -> Examples:
    """Flights of 40 days whose delay follows from the first number and the first category."""
    random = np.random.default_rng(7)
    rows = 4000
    numbers = random.normal(size=(rows, 3)).astype(np.float32)
    categories = np.stack([random.integers(0, size, rows) for size in SIZES], axis=1)
    delay = (30 * numbers[:, 0] + 10 * categories[:, 0] - 15 + random.normal(0, 20, rows)).astype(np.float32)
    return Examples(numbers, categories, delay, (delay > 15).astype(np.float32), random.integers(0, 40, rows))


def test_the_network_begins_as_the_regression(examples: Examples) -> None:
    regression = Regression(examples, SIZES)
    net = DelayNet(3, SIZES, width=8, hidden=8)
    net.begin_at(regression.weights, regression.bias)

    found = 1 / (1 + np.exp(-fit.outputs(net, examples)[:, 0]))

    np.testing.assert_allclose(found, regression.probability(examples), atol=1e-5)


def test_held_out_days_are_whole_and_of_every_weekday() -> None:
    days = np.repeat(np.arange(735_000, 735_273), 3)
    chosen = fit.held_out(days)

    assert set(days[chosen]).isdisjoint(days[~chosen])
    assert {int(day) % 7 for day in days[chosen]} == set(range(7))


def test_training_ends_with_the_best_epoch_and_is_the_same_for_a_seed(examples: Examples) -> None:
    check = fit.held_out(examples.days)
    regression = Regression(examples.where(~check), SIZES)
    found = []
    for _ in range(2):
        torch.manual_seed(1)
        net = DelayNet(3, SIZES, width=8, hidden=8)
        net.begin_at(regression.weights, regression.bias)
        fit.fit_network(net, examples.where(~check), examples.where(check), epochs=2, seed=1)
        assert not net.training
        found.append(fit.outputs(net, examples)[:, 0])

    np.testing.assert_array_equal(found[0], found[1])
    assert fit.score(examples.late, (1 / (1 + np.exp(-found[0]))).astype(np.float32)).auc > 0.8


@pytest.mark.parametrize("factor", [0.6, 1.0])
def test_overconfident_logits_get_a_temperature_and_right_ones_none(examples: Examples, factor: float) -> None:
    regression = Regression(examples, SIZES)
    net = DelayNet(3, SIZES, width=8, hidden=8)
    net.begin_at(regression.weights / factor, regression.bias / factor)

    calibration = fit.calibration(net, examples, seed=1)

    assert net.linear.weight[LATE_HEAD].isfinite().all()
    if factor == 1.0:
        assert calibration.scale == pytest.approx(1.0, abs=0.02)
    else:
        assert calibration.scale < 0.8
