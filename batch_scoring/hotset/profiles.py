"""How much a past request counts for the next window: less the older it is, more on the same weekday or hour."""

from dataclasses import dataclass

import numpy as np

from batch_scoring.hotset.trace import DAY_S, Floats, Windows

_WEEK_S = 7 * DAY_S
# In windows between refreshes; the last is all but a plain count.
_HALF_LIVES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
# Beside a season, in its periods.
_SEASONAL_HALF_LIVES = (1.0, 4.0)


@dataclass(frozen=True)
class Profile:
    """A request counts half for each half-life that it lies back.

    Attributes:
        half_life: in windows.
        period: in windows; a request that fell a whole number of periods before the window to come counts `BOOST`
            times. 0 is none.
    """

    half_life: float
    period: int = 0

    BOOST = 10.0

    def weights(self, ages: Floats) -> Floats:
        """`ages`: in windows before the one to come begins, fractions too."""
        weights = np.exp2(-ages / self.half_life)
        if self.period:
            weights[(np.floor(ages).astype(np.int64) + 1) % self.period == 0] *= self.BOOST
        return np.asarray(weights)

    def windows(self, count: int) -> float:
        """What `count` windows count for; undivided by it, sums over a longer past would be larger."""
        edges = np.exp2(-np.arange(count + 1) / self.half_life)
        each = (edges[:-1] - edges[1:]) * self.half_life / np.log(2)
        if self.period:
            each[self.period - 1 :: self.period] *= self.BOOST
        return float(each.sum()) if count else 1.0

    def sql(self, age: str) -> str:
        """Spark SQL of `weights` of one age."""
        plain = f"pow(0.5D, ({age}) / {self.half_life!r}D)"
        if not self.period:
            return plain
        return f"{plain} * IF((CAST(floor({age}) AS BIGINT) + 1) % {self.period} = 0, {self.BOOST!r}D, 1.0D)"


UNFITTED = Profile(4.0)


def candidates(windows: Windows, has_times: bool) -> list[Profile]:
    """Those that a log is tried with: days and weeks are seasons where the log has times and windows fit them."""
    found = [Profile(lives) for lives in _HALF_LIVES]
    for season_s in (DAY_S, _WEEK_S) if has_times else ():
        period = round(season_s / windows.refresh_s)
        if 1 < period <= windows.history and abs(period * windows.refresh_s - season_s) < 1e-6 * season_s:
            found += [Profile(lives * period, period) for lives in _SEASONAL_HALF_LIVES]
    return found
