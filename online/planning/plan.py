"""What if: this system's own profile and request log to fleets, for a latency goal and a budget. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from online.planning.batching import LINEAR_WITHIN
from online.planning.checks import OutOfRange, positive
from online.planning.outside import NOTHING, Outside
from online.planning.prices import SECONDS_PER_MONTH
from online.planning.profile_file import Profile
from online.planning.profile_notes import profile_notes
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
        outside_ms, outside_row_ms: of a live answer, outside queue and device; and for each row of its batch.
    """

    goal: Goal
    price_per_hour: float
    growth: float = 1.0
    hit_share: float | None = None
    cache_share: float | None = None
    hit_ms: float | None = None
    outside_ms: float | None = None
    outside_row_ms: float | None = None
    max_batch_rows: int | None = None


@dataclass(frozen=True)
class Plan:
    """The answer, with what it rests on.

    `device_over_profile`: how much longer than the profile's T(b) the log's batches took; NaN where it has none.
    """

    replica: Replica
    traffic: Traffic
    batch: Batch
    fleets: Sequence[Fleet]
    notes: Sequence[str]
    device_over_profile: float


def make_plan(profile: Profile, logged: Logged, wish: Wish) -> Plan:
    """Raises OutOfRange."""
    outside, outside_note = _outside(logged, wish)
    replica = profile.replica(wish.price_per_hour, outside, wish.max_batch_rows)
    traffic = traffic_of(logged, wish)
    over = logged.on_device.over(replica.batch_ms)
    notes = [_log_note(logged), outside_note, *profile_notes(profile), *_device_notes(over)]
    if logged.hot_missed_peak is None and wish.hit_share is None:
        notes.append(
            "No row of the log was answered by this system, so that hits are not known: give --hit-share, or "
            "--hot-set with the entities that would be precomputed."
        )
    batch, fleets = size_batch(replica, wish.goal), size(replica, traffic, wish.goal)
    return Plan(replica, traffic, batch, fleets, notes, over)


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


def _outside(logged: Logged, wish: Wish) -> tuple[Outside, str]:
    """The time and a note of where it comes from. Without a slope a time that was given stands for any batch."""
    if wish.outside_ms is not None or wish.outside_row_ms is not None:
        given = Outside(wish.outside_ms or 0.0, wish.outside_row_ms or 0.0)
        return given, f"{_told(given)}, as given."
    if logged.outside is None:
        return NOTHING, "Nothing is counted for the time outside queue and device: the log has no live answer."
    note = f"{_told(logged.outside)}: of the log's live answers, without the slowest twentieth."
    if not logged.outside.row_ms:
        note += " What each row of a batch adds is not known: the log's batches hardly differ in size."
    return logged.outside, note


def _told(outside: Outside) -> str:
    rest = f" and {outside.row_ms:.3g} ms for each row of the batch" if outside.row_ms else ""
    return f"{outside.fixed_ms:.3g} ms{rest} outside queue and device"


def _device_notes(over: float) -> list[str]:
    """Nothing where profile and log agree as well as a line has to agree with the profile."""
    if isnan(over) or abs(over) <= LINEAR_WITHIN:
        return []
    kind = f"{over:.0%} longer" if over > 0 else f"{-over:.0%} shorter"
    return [
        f"Warning: the log's batches took {kind} than the profile says: is it of the same device, and what else "
        "ran there? The plan goes by the profile."
    ]


def _log_note(logged: Logged) -> str:
    kind = "answers of this system" if logged.is_own else "requests answered elsewhere"
    text = (
        f"Log of {logged.model or 'one model'}: {logged.requests:,} {kind} from {logged.first:%Y-%m-%d %H:%M} to "
        f"{logged.last:%Y-%m-%d %H:%M} UTC; busiest minute {logged.peak.at:%Y-%m-%d %H:%M}, "
        f"{logged.peak.requests:,} requests."
    )
    return text + (f" {logged.left_out:,} other rows are left out." if logged.left_out else "")
