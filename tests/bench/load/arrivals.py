"""Poisson arrivals, from a seed: the load generator sends them, and the ideal device is simulated on the same."""

import random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]


class Phase(NamedTuple):
    """A stretch of load at one rate; nothing arrives at rate 0."""

    rate_per_s: float
    duration_s: float


def poisson(phases: list[Phase], seed: int) -> Seconds:
    """(n,) ascending arrival times in seconds from the start of the first phase.

    Raises:
        ValueError: a negative rate or duration.
    """
    draw = random.Random(seed)
    arrivals: list[float] = []
    began_s = 0.0
    for rate_per_s, duration_s in phases:
        if rate_per_s < 0 or duration_s < 0:
            raise ValueError(f"{rate_per_s}/s for {duration_s} s is no phase of load")
        ends_s = began_s + duration_s
        at_s = began_s + draw.expovariate(rate_per_s) if rate_per_s else ends_s
        while at_s < ends_s:
            arrivals.append(at_s)
            at_s += draw.expovariate(rate_per_s)
        began_s = ends_s
    return np.array(arrivals, dtype=np.float64)
