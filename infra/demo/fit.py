"""Fits the demo's network and, beside it, the logistic regression it must beat. Pure: tensors in, numbers out."""

import logging
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from torch.nn import functional

from infra.demo.model import DELAY_UNIT, HEADS, LATE_HEAD, LATE_MINUTES, DelayNet
from schemas.manifest import Calibration

# One day in 13 decides when to stop and how to calibrate; 13 has no factor of 7, so all weekdays are among them.
_HELD_OUT_DAYS = 13
_BATCH_ROWS = 1024
_STEP = 1e-3
_SAY_EVERY_S = 5.0
_EXTREME_DELAY = (-60.0, 180.0)
# The deep part pays for the square of what it adds, so it speaks where it is sure: 250 days are few to learn from.
_DEEP_PRICE = 0.3
_DELAY_PRICE = 1.0
_SCALES = np.arange(0.5, 1.8, 0.01)
_DRAWS = 1000
_LOG = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Examples:
    """n flights as the model is given them. `numbers` (n, P) float32, `categories` (n, Q) int64, the rest (n,)."""

    numbers: Floats
    categories: npt.NDArray[np.int64]
    delay: Floats
    late: Floats
    days: npt.NDArray[np.int64]

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Examples":
        return Examples(
            self.numbers[chosen], self.categories[chosen], self.delay[chosen], self.late[chosen], self.days[chosen]
        )


@dataclass(frozen=True)
class Score:
    """Of probabilities on flights of held-out days."""

    auc: float
    brier: float


def score(late: Floats, probability: Floats) -> Score:
    return Score(float(roc_auc_score(late, probability)), float(brier_score_loss(late, probability)))


class Regression:
    """Logistic regression over the numbers and all but the first of each category."""

    def __init__(self, examples: Examples, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        # Newton's steps reach the optimum, which the first-order default does not within its iterations.
        self._fitted = LogisticRegression(solver="newton-cholesky", max_iter=50)
        self._fitted.fit(self._matrix(examples), examples.late)

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        return np.asarray(self._fitted.coef_[0], dtype=np.float64)

    @property
    def bias(self) -> float:
        return float(self._fitted.intercept_[0])

    def probability(self, examples: Examples) -> Floats:
        return np.asarray(self._fitted.predict_proba(self._matrix(examples))[:, 1], dtype=np.float32)

    def _matrix(self, examples: Examples) -> Floats:
        columns = [
            np.eye(size, dtype=np.float32)[examples.categories[:, place]][:, 1:]
            for place, size in enumerate(self._sizes)
        ]
        return np.hstack([examples.numbers.clip(-5, 5), *columns])


def held_out(days: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """(n,) whether a training flight's day is one of those kept for stopping and calibration."""
    return np.asarray(days % _HELD_OUT_DAYS == 0)


def fit_network(net: DelayNet, train: Examples, check: Examples, epochs: int, seed: int) -> None:
    """Trains in place, and ends with the weights of the epoch that was best on `check`."""
    order = torch.Generator().manual_seed(seed)
    numbers, categories = torch.from_numpy(train.numbers), torch.from_numpy(train.categories)
    delay = torch.from_numpy(train.delay)
    linear = [*net.linear.parameters(), *net.biases.parameters()]
    deep = [weight for weight in net.parameters() if not any(weight is one for one in linear)]
    # The linear part begins at its optimum and all but stays there; its other heads follow the deep part's.
    optimizer = torch.optim.AdamW(
        [{"params": deep, "weight_decay": 1e-2}, {"params": linear, "weight_decay": 0.0}], lr=_STEP
    )
    steps = epochs * (len(delay) // _BATCH_ROWS)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [_STEP, _STEP / 100], steps + 1, pct_start=0.1)
    best, kept = float("inf"), net.state_dict()
    done, said = 0, time.monotonic()
    for epoch in range(epochs):
        net.train()
        shuffled = torch.randperm(len(delay), generator=order)
        for start in range(0, len(delay) - _BATCH_ROWS + 1, _BATCH_ROWS):
            batch = shuffled[start : start + _BATCH_ROWS]
            optimizer.zero_grad()
            torch.autograd.backward(_loss(net, numbers[batch], categories[batch], delay[batch]))
            optimizer.step()
            schedule.step()
            done += 1
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                _LOG.info("training: %d %% of %d epochs", 100 * done // steps, epochs)
        loss = _check_loss(net, check)
        _LOG.info("epoch %d of %d: loss on held-out training days %.4f", epoch + 1, epochs, loss)
        if loss < best:
            best, kept = loss, {name: weight.clone() for name, weight in net.state_dict().items()}
    net.load_state_dict(kept)
    net.eval()


def calibration(net: DelayNet, check: Examples, seed: int) -> Calibration:
    """The temperature, about the usual logit, that the days of `check` are sure of.

    Flights of one day share its weather, so twenty days say less than their flights would. Days are drawn again
    and again, and of the 95 % interval of what they give the temperature nearest to 1 is taken, where 1 changes
    nothing.
    A shift is not fitted: how late the few days of `check` were on the whole says nothing of other days.
    """
    logits = outputs(net, check)[:, 0].astype(np.float64)
    usual = float(np.log(check.late.mean() / (1 - check.late.mean())))
    moved = _SCALES[:, None] * (logits - usual) + usual
    losses = np.logaddexp(0.0, moved) - check.late * moved
    days, place = np.unique(check.days, return_inverse=True)
    # (scales, days): the loss of each day, so that drawing days is one product.
    by_day = np.stack([np.bincount(place, weights=row, minlength=len(days)) for row in losses])
    drawn = np.random.default_rng(seed).multinomial(len(days), np.full(len(days), 1 / len(days)), size=_DRAWS)
    found = _SCALES[np.argmin(by_day @ drawn.T, axis=0)]
    low, high = np.quantile(found, [0.025, 0.975])
    scale = float(np.clip(1.0, low, high))
    return Calibration(kind="sigmoid", scale=round(scale, 4), shift=round((1 - scale) * usual, 6))


def outputs(net: DelayNet, examples: Examples) -> Floats:
    """(n, 2) raw outputs."""
    net.eval()
    with torch.inference_mode():
        parts = [
            net(
                torch.from_numpy(examples.numbers[i : i + 8192]),
                torch.from_numpy(examples.categories[i : i + 8192]),
            )
            for i in range(0, len(examples.late), 8192)
        ]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)


def _loss(net: DelayNet, numbers: torch.Tensor, categories: torch.Tensor, delay: torch.Tensor) -> torch.Tensor:
    """Late by each of several limits, the one asked for twice, and the delay itself: one teaches the other."""
    linear, deep = net.parts(numbers, categories)
    heads = linear + deep
    limits = (delay[:, None] > torch.tensor(LATE_MINUTES)).float()
    late = functional.binary_cross_entropy_with_logits(heads[:, LATE_HEAD], limits[:, LATE_HEAD])
    others = functional.binary_cross_entropy_with_logits(heads[:, : HEADS - 1], limits)
    minutes = functional.smooth_l1_loss(heads[:, HEADS - 1], delay.clamp(*_EXTREME_DELAY) / DELAY_UNIT)
    return late + others + _DELAY_PRICE * minutes + _DEEP_PRICE * deep[:, LATE_HEAD].square().mean()


def _check_loss(net: DelayNet, check: Examples) -> float:
    logits = torch.from_numpy(outputs(net, check)[:, 0].copy())
    return float(functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(check.late)))
