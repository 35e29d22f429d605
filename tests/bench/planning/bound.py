"""The simulator beside Inoue's bound, which holds for every mean without cap and delay."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from online.planning.batching import inoue_bound_ms, saturation_per_s
from online.planning.simulation import simulate
from schemas.capacity import BatchTime

# Of 200 comparisons with a bound that is nearly reached, some would be over it by chance at 95 %.
CONFIDENCE = 0.999


@dataclass(frozen=True)
class Triple:
    """One simulation. `low_ms` is the lower end of its mean's interval."""

    time: BatchTime
    rate_per_s: float
    mean_ms: float
    low_ms: float
    bound_ms: float

    @property
    def is_violation(self) -> bool:
        return self.low_ms > self.bound_ms

    @property
    def mean_over_bound(self) -> float:
        return self.mean_ms / self.bound_ms


def compare(triples: int, requests: int, seed: int) -> Sequence[Triple]:
    """Random devices, tau0 and alpha over two orders of magnitude each, loaded up to 95 % of 1 / alpha."""
    random = np.random.default_rng(seed)
    return [_one(random, requests, place) for place in range(triples)]


def _one(random: np.random.Generator, requests: int, seed: int) -> Triple:
    time = BatchTime(float(10 ** random.uniform(-0.5, 1.5)), float(10 ** random.uniform(-1.5, 0.5)))
    rate_per_s = float(random.uniform(0.02, 0.95)) * saturation_per_s(time)
    found = simulate(rate_per_s, time.batch_ms, requests=requests, seed=seed, confidence=CONFIDENCE)
    bound_ms = inoue_bound_ms(time, rate_per_s)
    return Triple(time, rate_per_s, found.mean_ms.value, found.mean_ms.low, bound_ms)
