"""Replies to look-ups, by entity: the newest value that is whole, its own, and fresh; or why there is none."""

from typing import NamedTuple

import hiredis

from online.api.lookup.resp import Command, get, hget
from online.api.routes.view import VersionView
from schemas.codec import LIVE_ORDINAL, CorruptValue, ForeignValue, Prediction, unpack
from schemas.http import MissReason, Source
from schemas.keys import bucket_of, field_of


class Found(NamedTuple):
    """A stored prediction. `reason`: why it is not the precomputed one, None where it is; `packed`: as stored."""

    prediction: Prediction
    source: Source
    reason: MissReason | None
    packed: object


def questions(view: VersionView, entity: bytes) -> tuple[Command, ...]:
    """The commands that look an entity up; `view.replies_per_entity` replies."""
    written_back = get(view.live_prefix + entity)
    if view.generation is None:
        return (written_back,)
    key = view.bucket_prefix + b"%d" % bucket_of(entity, view.generation.buckets)
    return hget(key, field_of(entity)), written_back


def choose(view: VersionView, entity: bytes, replies: list[object], now_ms: int) -> Found | MissReason:
    """The answer to `questions`. Newest computation wins; an unusable value is a miss of its entity only."""
    reason = MissReason.VERSION_NOT_PRECOMPUTED
    best: Found | None = None
    if view.generation is not None:
        reason = MissReason.NOT_IN_GENERATION
        stored = read(view, entity, view.generation.ordinal, replies[0], now_ms)
        if isinstance(stored, MissReason):
            reason = stored
        elif stored is not None:
            best = Found(stored, Source.PRECOMPUTED, None, replies[0])
    written_back = read(view, entity, LIVE_ORDINAL, replies[-1], now_ms)
    if isinstance(written_back, Prediction):
        if best is None or written_back.computed_at_ms > best.prediction.computed_at_ms:
            return Found(written_back, Source.CACHED, reason, replies[-1])
    elif written_back is not None:
        # What is wrong with a written-back value says more than that the generation has none.
        reason = written_back
    return best or reason


def read(
    view: VersionView, subject: bytes, ordinal: int, reply: object, now_ms: int
) -> Prediction | MissReason | None:
    """One stored value: None where there is none.

    Args:
        subject: the entity, or the digest of brought features, whose value this must be.
    """
    if reply is None:
        return None
    if not isinstance(reply, bytes):
        is_wrong_type = isinstance(reply, hiredis.ReplyError) and str(reply).startswith("WRONGTYPE")
        return MissReason.CORRUPT if is_wrong_type else MissReason.REDIS_DOWN
    try:
        found = unpack(reply, subject, ordinal, view.output_count)
    except ForeignValue:
        return MissReason.FOREIGN
    except CorruptValue:
        return MissReason.CORRUPT
    if view.max_age_ms is not None and now_ms - found.computed_at_ms > view.max_age_ms:
        return MissReason.TOO_OLD
    return found
