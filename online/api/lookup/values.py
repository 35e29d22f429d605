"""Replies to look-ups, by entity: the newest value that is whole and its own, and whether it may be answered."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import hiredis

from online.api.lookup.connection import BreakerOpen, RedisSlow
from online.api.lookup.resp import Command, get, hget
from online.api.routes.view import VersionView
from schemas.codec import LIVE_ORDINAL, CorruptValue, ForeignValue, Prediction, unpack
from schemas.http import MissReason, Source
from schemas.keys import bucket_of, field_of

# Readings of Redis's clock on two machines differ by less: what was computed so shortly after an invalidation may
# have been computed before it.
CLOCK_ERROR_MS = 5
_NEVER_MS = -1 - CLOCK_ERROR_MS


class Verdict(Enum):
    """What may be done with a value of some age."""

    FRESH = "fresh"
    RENEW = "renew"  # answer it, and compute it anew
    ASKED = "asked"  # too old for this request only
    EXPIRED = "expired"
    INVALIDATED = "invalidated"


class Limits(NamedTuple):
    """When a value of one entity must have been computed, in ms by Redis's clock; as it is, everything is fresh.

    Attributes:
        fresh_from_ms: by the model's rule; from `renew_from_ms` on, a value may be answered while it is renewed.
        asked_from_ms: by this request's `max-age`.
        invalidated_ms: when the entity was last invalidated.
    """

    fresh_from_ms: int = 0
    renew_from_ms: int = 0
    asked_from_ms: int = 0
    invalidated_ms: int = _NEVER_MS

    def judge(self, computed_at_ms: int) -> Verdict:
        if computed_at_ms <= self.invalidated_ms + CLOCK_ERROR_MS:
            return Verdict.INVALIDATED
        if computed_at_ms < self.renew_from_ms:
            return Verdict.EXPIRED
        if computed_at_ms < self.asked_from_ms:
            return Verdict.ASKED
        return Verdict.FRESH if computed_at_ms >= self.fresh_from_ms else Verdict.RENEW


NO_LIMITS = Limits()


def limits_of(
    view: VersionView, entity: bytes, invalidated: Mapping[bytes, int], max_age_ms: int | None, now_ms: int
) -> Limits:
    """Args: `invalidated`, of the model: entity to ms; `max_age_ms` as this request asks."""
    mark_ms = invalidated.get(entity) if invalidated else None
    if mark_ms is None and max_age_ms is None and view.max_age_ms is None:
        return NO_LIMITS
    fresh_from_ms = 0 if view.max_age_ms is None else now_ms - view.max_age_ms
    return Limits(
        fresh_from_ms,
        max(0, fresh_from_ms - view.renewal_ms),
        0 if max_age_ms is None else now_ms - max_age_ms,
        _NEVER_MS if mark_ms is None else mark_ms,
    )


class Found(NamedTuple):
    """A stored prediction.

    Attributes:
        reason: why it is not the precomputed one, None where it is, or where that is only older.
        packed: as stored; `generation`: which one it was read from, None for a written-back result.
    """

    prediction: Prediction
    source: Source
    reason: MissReason | None
    packed: object
    generation: str | None = None


def questions(view: VersionView, entity: bytes) -> list[Command]:
    """The commands that look an entity up: deltas and base, newest first, then what was written back."""
    commands = []
    if view.layers:
        field = field_of(entity)
        for layer in view.layers:
            commands.append(hget(layer.prefix + b"%d" % bucket_of(entity, layer.buckets), field))
    commands.append(get(view.live_prefix + entity))
    return commands


def choose(view: VersionView, entity: bytes, replies: list[object], limits: Limits) -> Found | MissReason:
    """The answer to `questions`. Newest computation wins; an unusable value is a miss of its entity only."""
    reason = MissReason.NOT_SELECTED if view.layers else MissReason.VERSION_NOT_PRECOMPUTED
    best: Found | None = None
    for layer, reply in zip(view.layers, replies, strict=False):
        stored = read(view, entity, layer.ordinal, reply)
        if isinstance(stored, MissReason):
            reason = stored
        elif stored is not None and (best is None or stored.computed_at_ms > best.prediction.computed_at_ms):
            best = Found(stored, Source.PRECOMPUTED, None, reply, layer.generation)
    written_back = read(view, entity, LIVE_ORDINAL, replies[-1])
    if isinstance(written_back, Prediction):
        if best is None:
            return Found(written_back, Source.CACHED, reason, replies[-1])
        if written_back.computed_at_ms > best.prediction.computed_at_ms:
            return Found(written_back, Source.CACHED, _why_not(best, limits), replies[-1])
    elif written_back is not None:
        # What is wrong with a written-back value says more than that the generation has none.
        reason = written_back
    return best or reason


def read(view: VersionView, subject: bytes, ordinal: int, reply: object) -> Prediction | MissReason | None:
    """One stored value: None where there is none.

    Args:
        subject: the entity, or the digest of brought features, whose value this must be.
    """
    if reply is None:
        return None
    if not isinstance(reply, bytes):
        return reason_of(reply)
    try:
        found = unpack(reply, subject, ordinal, view.output_count)
    except ForeignValue:
        return MissReason.FOREIGN
    except CorruptValue:
        return MissReason.CORRUPT
    if view.maker.has_places and not view.maker.are_places(found.outputs):
        return MissReason.CORRUPT
    return found


def reason_of(error: object) -> MissReason:
    """Of what came instead of a value: an error of the connection or of one node, or Redis's own."""
    if isinstance(error, RedisSlow):
        return MissReason.REDIS_TIMEOUT
    if isinstance(error, BreakerOpen):
        return MissReason.BREAKER_OPEN
    if isinstance(error, hiredis.ReplyError):
        is_wrong_type = str(error).startswith("WRONGTYPE")
        return MissReason.CORRUPT if is_wrong_type else MissReason.CONNECTION_LOST
    return MissReason.CORRUPT if not isinstance(error, Exception) else MissReason.CONNECTION_LOST


def _why_not(precomputed: Found, limits: Limits) -> MissReason | None:
    match limits.judge(precomputed.prediction.computed_at_ms):
        case Verdict.EXPIRED | Verdict.RENEW:
            return MissReason.EXPIRED
        case Verdict.INVALIDATED:
            return MissReason.INVALIDATED
    return None
