"""A cap on answers that requests want computed anew, so that no caller can push all traffic to the live tier."""

from collections.abc import Callable
from time import monotonic


class FreshCap:
    """A token bucket for each model, in this worker; it holds one second's worth, and at least one."""

    def __init__(self, per_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._per_s, self._most, self._clock = per_s, max(1.0, per_s), clock
        self._left: dict[str, tuple[float, float]] = {}
        self.granted = 0
        self.refused = 0

    def take(self, model: str) -> bool:
        """Whether one more may be computed anew, though a stored value is there."""
        now_s = self._clock()
        left, at_s = self._left.get(model, (self._most, now_s))
        left = min(self._most, left + (now_s - at_s) * self._per_s)
        is_granted = self._per_s > 0 and left >= 1
        self._left[model] = (left - is_granted, now_s)
        self.granted += is_granted
        self.refused += not is_granted
        return is_granted
