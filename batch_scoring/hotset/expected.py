"""Expected requests of each entity before the next refresh, from the past alone.

A request counts less the older it is (`profiles.py`); the decayed mean is the requests a window, so weighted.
How many requests such a mean stands for is fitted: on past windows, entities of like means are looked at together,
and what they then got is their expectation. Where entities never return it is zero, whatever the means.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.choice import by_worth
from batch_scoring.hotset.profiles import UNFITTED, Profile, candidates
from batch_scoring.hotset.trace import Floats, Trace, Windows

_BINS_PER_DOUBLING = 2


def decayed_means(trace: Trace, windows: Windows, window: int, profile: Profile) -> Floats:
    """(m,) requests a window, over the past that a choice for `window` may look at; 0 for whom nobody asked."""
    past = windows.past(window)
    ages = (windows.edges_s[window] - trace.times_s[past]) / windows.refresh_s
    sums = np.bincount(trace.codes[past], weights=profile.weights(ages), minlength=trace.entities)
    # Rounded, since a sum's last digits depend on the order of addition.
    return np.round(sums, 9) / profile.windows(min(window, windows.history))


def realised(trace: Trace, windows: Windows, window: int) -> Floats:
    """(m,) requests in `window`."""
    counts = np.bincount(trace.codes[windows.span(window)], minlength=trace.entities)
    return counts.astype(np.float64)


@dataclass(frozen=True)
class Calibration:
    """From decayed means to expected requests: straight lines between points that rise together, from (0, 0).

    Attributes:
        means, requests: (k,) both rising; beyond the last point, in proportion to it.
    """

    means: tuple[float, ...]
    requests: tuple[float, ...]

    def __call__(self, means: Floats) -> Floats:
        if not self.means:
            return np.zeros_like(means)
        within = np.interp(means, (0.0, *self.means), (0.0, *self.requests))
        return np.where(means > self.means[-1], means * (self.requests[-1] / self.means[-1]), within)


def calibrated(means: Sequence[Floats], got: Sequence[Floats]) -> Calibration:
    """Fitted on past windows: for each, the means before it (m,) and the requests in it (m,)."""
    all_means, all_got = np.concatenate(means), np.concatenate(got)
    was_seen = all_means > 0
    all_means, all_got = all_means[was_seen], all_got[was_seen]
    if not len(all_means):
        return Calibration((), ())
    numbers = np.floor(_BINS_PER_DOUBLING * np.log2(all_means)).astype(np.int64)
    numbers -= numbers.min()
    sizes = np.bincount(numbers)
    filled = sizes > 0
    mid_means = np.bincount(numbers, weights=all_means)[filled] / sizes[filled]
    mid_got = np.bincount(numbers, weights=all_got)[filled] / sizes[filled]
    return Calibration(tuple(mid_means.tolist()), tuple(rising(mid_got, sizes[filled].astype(np.float64))))


def rising(values: Floats, weights: Floats) -> list[float]:
    """The closest values that never fall, by weighted squares: neighbours that fall are averaged.

    Source: pool adjacent violators, Ayer et al. 1955.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, mass, size = value, float(weight), 1
        while pools and pools[-1][0] >= mean:
            before, before_mass, before_size = pools.pop()
            mean = (before * before_mass + mean * mass) / (before_mass + mass)
            mass, size = before_mass + mass, before_size + size
        pools.append((mean, mass, size))
    return [mean for mean, _, size in pools for _ in range(size)]


@dataclass(frozen=True)
class Outlook:
    """Before a window. `means`, `expected`: (m,) requests a window, as they were and as they are expected."""

    profile: Profile
    means: Floats
    expected: Floats
    calibration: Calibration


class Expectations:
    """The outlook before each window, from its past alone; a profile is judged by its best `slots` entities."""

    # A profile and a calibration are fitted on so many windows before.
    FITTED_ON = 7

    def __init__(self, trace: Trace, windows: Windows, slots: int) -> None:
        self._trace, self._windows, self._slots = trace, windows, slots
        self._profiles = candidates(windows, trace.has_times)
        # By window: (profiles, m) means, and how many requests the largest of each would have caught.
        self._means: dict[int, list[Floats]] = {}
        self._caught: dict[int, Floats] = {}

    def outlook(self, window: int) -> Outlook:
        """Quick where windows are asked for in order."""
        fitted_on = self._fitted_on(window)
        for past in set(self._means) - set(fitted_on):
            del self._means[past]
        caught = sum((self._caught_in(past) for past in fitted_on), np.zeros(len(self._profiles)))
        best = int(np.argmax(caught))
        profile = self._profiles[best] if fitted_on else UNFITTED
        means = decayed_means(self._trace, self._windows, window, profile)
        # With no past of its own to go by, what was will be.
        calibration = self._calibration(fitted_on, best) if fitted_on else Calibration((1.0,), (1.0,))
        return Outlook(profile, means, calibration(means), calibration)

    def _fitted_on(self, window: int) -> list[int]:
        """Windows with a past of their own and with requests."""
        first = self._windows.first
        asked = [past for past in range(1, window) if first[past + 1] > first[past] > 0]
        return asked[-self.FITTED_ON :]

    def _calibration(self, fitted_on: Sequence[int], profile: int) -> Calibration:
        means = [self._means_before(past)[profile] for past in fitted_on]
        return calibrated(means, [realised(self._trace, self._windows, past) for past in fitted_on])

    def _caught_in(self, window: int) -> Floats:
        if window not in self._caught:
            got = realised(self._trace, self._windows, window)
            tops = [by_worth(means, means, self._trace, self._slots) for means in self._means_before(window)]
            self._caught[window] = np.array([got[top].sum() for top in tops])
        return self._caught[window]

    def _means_before(self, window: int) -> list[Floats]:
        if window not in self._means:
            profiles = self._profiles
            self._means[window] = [decayed_means(self._trace, self._windows, window, one) for one in profiles]
        return self._means[window]
