"""Confidence intervals: Student's t, and means of correlated samples. Pure, numpy."""

from dataclasses import dataclass
from functools import cache
from math import pi, sqrt, tan

import numpy as np
import numpy.typing as npt

from online.planning.checks import OutOfRange, counts

CONFIDENCE = 0.95
_STEPS = 100_001


@dataclass(frozen=True, slots=True)
class Interval:
    """`value` and half the width of its confidence interval, in the unit of what was sampled."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        return self.value - self.half_width

    @property
    def high(self) -> float:
        return self.value + self.half_width


@cache
def student_t(confidence: float, degrees: int) -> float:
    """The t with P(|T| < t) = `confidence` for so many degrees of freedom.

    With x = sqrt(n) tan(angle) the density becomes cos(angle)^(n - 1), which is summed up and inverted.
    """
    if not 0 < confidence < 1:
        raise OutOfRange("confidence", confidence, "above 0 and below 1")
    counts(degrees=degrees)
    angle = np.linspace(0, pi / 2, _STEPS)
    density = np.cos(angle) ** (degrees - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return sqrt(degrees) * tan(float(np.interp(confidence, mass / mass[-1], angle)))


def interval(samples: npt.NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval:
    """Mean of independent samples, (n,) with n of at least two."""
    spread = float(samples.std(ddof=1)) / sqrt(len(samples))
    return Interval(float(samples.mean()), student_t(confidence, len(samples) - 1) * spread)
