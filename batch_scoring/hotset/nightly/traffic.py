"""The log's traffic by minute beside two sets of entities: what they would have answered of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

MINUTE_S = 60
# Of each minute: requests, those for the set, for the set in service, and their weights.
COLUMNS = ("minute", "requests", "hot", "old", "weight", "hot_weight")


@dataclass(frozen=True)
class Traffic:
    """All counts are requests.

    Attributes:
        hot: for entities of the set; `weight`, `hot_weight`: of the same, newer ones counting more.
        peak_at_s, peak, peak_hot: the minute with the most requests, the first of equals; None without any.
        most_missed: requests for others in the minute that has most of them, which may be another one.
        since, since_old: after the set in service was chosen: of everybody, and of its entities.
    """

    requests: int
    hot: int
    weight: float
    hot_weight: float
    peak_at_s: float | None
    peak: int
    peak_hot: int
    most_missed: int
    since: int
    since_old: int

    @property
    def coverage(self) -> float:
        return self.hot / self.requests if self.requests else 0.0

    @property
    def coverage_weighted(self) -> float:
        # Rounded, since a sum's last digits depend on the order of addition.
        return round(self.hot_weight / self.weight, 9) if self.weight else 0.0

    @property
    def peak_miss_share(self) -> float | None:
        """The busiest minute of the misses, as a share of the busiest of all: what sizes the live tier."""
        return self.most_missed / self.peak if self.peak else None


def summed(by_minute: Mapping[str, npt.NDArray[Any]], since_s: float | None) -> Traffic:
    """
    Args:
        by_minute: `COLUMNS`, (minutes,) each, in any order; minutes without requests may be left out.
        since_s: when the set in service was chosen; None without one.
    """
    if not by_minute or not len(by_minute["minute"]):
        return Traffic(0, 0, 0.0, 0.0, None, 0, 0, 0, 0, 0)
    order = np.argsort(by_minute["minute"])
    minutes, requests, hot, old, weight, hot_weight = (by_minute[name][order] for name in COLUMNS)
    peak = int(np.argmax(requests))
    is_since = minutes * MINUTE_S >= (np.inf if since_s is None else since_s)
    return Traffic(
        int(requests.sum()),
        int(hot.sum()),
        float(weight.sum()),
        float(hot_weight.sum()),
        float(minutes[peak] * MINUTE_S),
        int(requests[peak]),
        int(hot[peak]),
        int((requests - hot).max()),
        int(requests[is_since].sum()),
        int(old[is_since].sum()),
    )
