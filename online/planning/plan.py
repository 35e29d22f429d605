"""What if: this system's own profile and request log to fleets, for a latency goal and a budget. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from online.planning.checks import OutOfRange, positive
from online.planning.prices import SECONDS_PER_MONTH
from online.planning.profile_file import Profile
from online.planning.replica import Batch, Goal, Replica, size_batch
from online.planning.request_log import Logged
from online.planning.sizing import Fleet, size
from online.planning.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for beside the goal; None: taken from the files.

    Attributes:
        growth: times the traffic of the log.
        hit_share, cache_share: of the busiest minute, instead of what the log shows.
        outside_ms: of a live answer, outside queue and device.
    """

    goal: Goal
    price_per_hour: float
    growth: float = 1.0
    hit_share: float | None = None
    cache_share: float | None = None
    hit_ms: float | None = None
    outside_ms: float | None = None
    max_batch_rows: int | None = None


@dataclass(frozen=True)
class Plan:
    """The answer, with what it rests on."""

    replica: Replica
    traffic: Traffic
    batch: Batch
    fleets: Sequence[Fleet]
    notes: Sequence[str]


def make_plan(profile: Profile, logged: Logged, wish: Wish) -> Plan:
    """Raises OutOfRange."""
    outside_ms, outside_note = _outside(logged, wish)
    replica = profile.replica(wish.price_per_hour, outside_ms, wish.max_batch_rows)
    traffic = traffic_of(logged, wish)
    notes = [_log_note(logged), outside_note, *_profile_notes(profile)]
    if logged.hot_missed_peak is None and wish.hit_share is None:
        notes.append(
            "No row of the log was answered by this system, so that hits are not known: give --hit-share, or "
            "--hot-set with the entities that would be precomputed."
        )
    return Plan(replica, traffic, size_batch(replica, wish.goal), size(replica, traffic, wish.goal), notes)


def traffic_of(logged: Logged, wish: Wish) -> Traffic:
    """The busiest minutes behind each store, times the growth. Raises OutOfRange."""
    positive(growth=wish.growth)
    peak = logged.peak.per_s * wish.growth
    month = logged.mean_per_s * wish.growth * SECONDS_PER_MONTH
    hit_ms = logged.hit.quantile_ms(0.5) if wish.hit_ms is None else wish.hit_ms
    if wish.hit_share is not None:
        shares = {"hit_share": wish.hit_share, "cache_share": wish.cache_share}
        return Traffic.of_shares(peak, requests_per_month=month, hit_ms=hit_ms, **shares)
    hot = None if logged.hot_missed_peak is None else logged.hot_missed_peak.per_s * wish.growth
    cached = None if logged.cache_missed_peak is None else logged.cache_missed_peak.per_s * wish.growth
    if wish.cache_share is not None:
        if not 0 <= wish.cache_share <= 1:
            raise OutOfRange("cache_share", wish.cache_share, "a share from 0 to 1")
        cached = (peak if hot is None else hot) * (1 - wish.cache_share)
    return Traffic(peak, month, hot, cached, hit_ms)


def _outside(logged: Logged, wish: Wish) -> tuple[float, str]:
    """The time and a note of where it comes from."""
    if wish.outside_ms is not None:
        return wish.outside_ms, f"{wish.outside_ms:g} ms outside queue and device, as given."
    found = logged.outside.quantile_ms(0.5)
    if isnan(found):
        return 0.0, "Nothing is counted for the time outside queue and device: the log has no live answer."
    return found, f"{found:.3g} ms outside queue and device: the median of the log's live answers."


def _log_note(logged: Logged) -> str:
    kind = "answers of this system" if logged.is_own else "requests answered elsewhere"
    text = (
        f"Log of {logged.model or 'one model'}: {logged.requests:,} {kind} from {logged.first:%Y-%m-%d %H:%M} to "
        f"{logged.last:%Y-%m-%d %H:%M} UTC; busiest minute {logged.peak.at:%Y-%m-%d %H:%M}, "
        f"{logged.peak.requests:,} requests."
    )
    return text + (f" {logged.left_out:,} other rows are left out." if logged.left_out else "")


def _profile_notes(profile: Profile) -> list[str]:
    notes = []
    if profile.is_emulated:
        notes.append(f"The profile is of an emulated device ({profile.device}): so is the plan.")
    if profile.overruns:
        notes.append(f"The emulated device overran {profile.overruns} times while it was measured.")
    if not profile.fit.is_linear:
        notes.append(
            f"Warning: no line fits the profile ({profile.fit.worst_error:+.0%} at {profile.fit.worst_rows} "
            "rows): planned with the measured sizes, straight between them."
        )
    return notes
