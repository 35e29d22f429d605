"""What the live tier is asked, with and without the stores that answer before it. Pure.

A peak is a rate of requests a second, such as the busiest minute's.
"""

from dataclasses import dataclass
from math import nan
from typing import Self

from online.planning.checks import OutOfRange, positive, shares


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the live tier is asked, in requests a second of the busiest minute of each.

    Attributes:
        peak_per_s: of all requests.
        hot_missed_per_s: of those that are not in the hot set; None where that is not known.
        cache_missed_per_s: of those that the write-back and input caches do not answer either.
        requests_per_month: of all requests, for the price of a million.
        hit_ms: what a hit takes; NaN where it is not known.
    """

    peak_per_s: float
    requests_per_month: float
    hot_missed_per_s: float | None = None
    cache_missed_per_s: float | None = None
    hit_ms: float = nan

    def __post_init__(self) -> None:
        positive(peak_per_s=self.peak_per_s, requests_per_month=self.requests_per_month)
        most = self.peak_per_s
        for field in ("hot_missed_per_s", "cache_missed_per_s"):
            if (rate := getattr(self, field)) is None:
                continue
            if not 0 <= rate <= most * (1 + 1e-9):
                raise OutOfRange(field, f"{rate:g}", f"from 0 to {most:g}, of which it is a part")
            most = rate

    @classmethod
    def of_shares(
        cls,
        peak_per_s: float,
        *,
        hit_share: float | None = None,
        cache_share: float | None = None,
        requests_per_month: float,
        hit_ms: float = nan,
    ) -> Self:
        """From shares in the busiest minute: of requests in the hot set, and of its misses in a cache."""
        hot = cached = None
        if hit_share is not None:
            shares(hit_share=hit_share)
            hot = peak_per_s * (1 - hit_share)
        if cache_share is not None:
            shares(cache_share=cache_share)
            cached = (peak_per_s if hot is None else hot) * (1 - cache_share)
        return cls(peak_per_s, requests_per_month, hot, cached, hit_ms)

    def scenarios(self) -> list["Scenario"]:
        """Without any store first, then with each that is known."""
        found = [Scenario("all live", self.peak_per_s, None)]
        if self.hot_missed_per_s is not None:
            found.append(Scenario("hot set", self.hot_missed_per_s, self.peak_per_s))
        if self.cache_missed_per_s is not None:
            name = "cache" if self.hot_missed_per_s is None else "hot set and cache"
            found.append(Scenario(name, self.cache_missed_per_s, self.peak_per_s))
        return found


@dataclass(frozen=True, slots=True)
class Scenario:
    """Which stores answer first, and so what is left; `cold_per_s` comes when these are empty."""

    name: str
    live_per_s: float
    cold_per_s: float | None
