"""What the log's past says of the choice to come, on a sample of its entities small enough for this process."""

from dataclasses import dataclass, replace

import numpy as np

from batch_scoring.hotset.choice import Lists, cut_to
from batch_scoring.hotset.choosing import Room, room_of
from batch_scoring.hotset.fit import Fit, unfitted
from batch_scoring.hotset.nightly.given import USUAL_ID_BYTES, Given
from batch_scoring.hotset.nightly.log import Log
from batch_scoring.hotset.nightly.night import Night
from batch_scoring.hotset.plan import Plan
from batch_scoring.hotset.proving import Proof, Rival, prove, why_too_short
from batch_scoring.hotset.sampling import is_sampled
from batch_scoring.hotset.split import WrittenBack
from batch_scoring.hotset.trace import DAY_S, BadLog, Trace, windows_until
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings


@dataclass(frozen=True)
class Trial:
    """`proof`: None where the log is too short, for the reason that `why_not` gives.

    `share`: of the entities that were looked at.
    """

    fit: Fit
    room: Room
    share: float
    proof: Proof | None
    why_not: str | None
    is_log_empty: bool = False


def try_on_the_past(log: Log, night: Night) -> Trial:
    """Raises Refused where the budget holds nothing."""
    given, settings = night.given, night.settings
    trace, unknown, share = log.sample(settings.simulate_requests)
    room = _room(trace, given, settings)
    fresh_share = _fresh_share(trace, given, night.as_of_s)
    windows = windows_until(trace, night.as_of_s, given.refresh_s, given.history)
    why_not = why_too_short(trace, windows)
    if why_not:
        half_life = settings.half_life_days * DAY_S / given.refresh_s
        return Trial(unfitted(half_life, fresh_share), room, share, None, why_not, not night.rows.requests)
    trace, plan, rival = _with_lists(trace, unknown, night, room, share, fresh_share)
    proof = prove(trace, windows, plan, rival)
    return Trial(_of_night(proof.fit, settings), room, share, proof, None)


def _of_night(fit: Fit, settings: BatchSettings) -> Fit:
    """Without a budget nothing is to be shared: written-back results have what memory Redis has beside."""
    return fit if settings.memory_budget or not fit.share else replace(fit, share=1.0)


def _room(trace: Trace, given: Given, settings: BatchSettings) -> Room:
    id_bytes = float(trace.id_bytes.mean()) if trace.entities else float(USUAL_ID_BYTES)
    try:
        return room_of(given.known, settings.hot_fraction, given.model, id_bytes, settings.memory_budget)
    except BadLog as error:
        raise Refused(f"BATCH_MEMORY_BUDGET: {error}") from None


def _with_lists(
    trace: Trace, unknown: set[str], night: Night, room: Room, share: float, fresh_share: float
) -> tuple[Trace, Plan, Rival | None]:
    """The trace with those beside that may be precomputed and that nobody asked for."""
    given, in_service = night.given, night.in_service
    old = in_service.names if in_service else []
    named = np.array([*night.mandatory, *old], dtype=object)
    trace = trace.knowing(named[is_sampled(named, share)].tolist() if share < 1 else named.tolist())
    lists = Lists.of(trace, night.mandatory, [*given.blocked, *unknown])
    # As the API is told: what it does not do is not to be counted on.
    server = WrittenBack(
        given.freshness.live_ttl_s, admissions=(given.write_back_after,), max_age_s=given.freshness.max_age_s
    )
    slots, most = (max(1, round(number * share)) for number in (room.slots, room.most_fixed))
    plan = Plan(slots, most, given.model, server, lists, share, fresh_share=fresh_share)
    if in_service is None:
        return trace, plan, None
    code = {name: place for place, name in enumerate(trace.names)}
    codes = np.array([code[name] for name in old if name in code], np.int64)
    held = cut_to(codes, trace, given.model, most, room.budget_bytes * share, lists)
    return trace, plan, Rival(held, in_service.as_of_s)


def _fresh_share(trace: Trace, given: Given, as_of_s: float) -> float:
    """Of the requests, how many came while what was precomputed before them was still fresh."""
    if given.freshness.max_age_s is None or not len(trace.codes):
        return 1.0
    ages_s = given.refresh_s - (as_of_s - trace.times_s) % given.refresh_s
    return float(np.mean(ages_s % given.refresh_s < given.freshness.max_age_s))
