"""The demo's traffic, which nobody invented: every seat of every flight flown is one look-up on its day.

What is made up is when somebody looks: at a seeded time in the twelve hours before departure, more often late than
early. A day begins when its night is computed, at 02:00 UTC, and no look-up lies outside its day.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import numpy.typing as npt

from infra.demo import source

DAY_BEGINS_HOUR_UTC = 2
# For the one plane in six whose seats are unknown: the median of the others.
_UNKNOWN_SEATS = 149
_LONGEST_LEAD = np.timedelta64(12, "h")
_MINUTE = np.timedelta64(1, "m")


@dataclass(frozen=True, slots=True)
class DayLookups:
    """Look-ups in order of time. `times`: (n,) datetime64[us], UTC; `entities`: (n,) text."""

    times: npt.NDArray[np.datetime64]
    entities: npt.NDArray[np.object_]

    @property
    def minutes(self) -> npt.NDArray[np.int64]:
        """(n,) the minute of the UTC day, 0 to 1439."""
        days = self.times.astype("datetime64[D]").astype(self.times.dtype)
        return ((self.times - days) // _MINUTE).astype(np.int64)

    def thinned(self, factor: int) -> "DayLookups":
        """One look-up in `factor`: every one of that number in order of time, so the day keeps its shape."""
        return DayLookups(self.times[::factor], self.entities[::factor])


def lookups_of(day: date, today: date, seed: int) -> DayLookups:
    """All look-ups of `day`, in the calendar in which the replayed day is `today`; the same for the same seed."""
    shift = np.timedelta64(source.shift_to(today), "us")
    begin = np.datetime64(datetime.combine(day, time(DAY_BEGINS_HOUR_UTC), UTC).replace(tzinfo=None), "us")
    flights = source.flights()
    departs = flights["departs_at"].dt.tz_localize(None).to_numpy("datetime64[us]") + shift
    flown = (
        flights["flown"].to_numpy() & (departs >= begin) & (departs < begin + np.timedelta64(timedelta(days=1)))
    )
    seats = flights["seats"].fillna(_UNKNOWN_SEATS).to_numpy(np.int64)[flown]
    departs = np.repeat(departs[flown], seats)
    entities = np.repeat(flights["entity"].to_numpy(object)[flown], seats)
    # The square of a uniform number is more often small: most people look shortly before they fly.
    lead = np.minimum(departs - begin, _LONGEST_LEAD) * np.random.default_rng(seed).random(len(departs)) ** 2
    times = departs - lead.astype("timedelta64[us]")
    order = np.argsort(times, kind="stable")
    return DayLookups(times[order], entities[order])
