"""Replies to a look-up: which value wins, what a bad one is called, and what may still be answered."""

import hiredis
import numpy as np
import pytest

from online.api.lookup.connection import BreakerOpen, RedisDown, RedisSlow
from online.api.lookup.values import (
    CLOCK_ERROR_MS,
    NO_LIMITS,
    Found,
    Limits,
    Verdict,
    choose,
    limits_of,
    questions,
)
from online.api.routes.view import VersionView
from schemas.codec import LIVE_ORDINAL, pack
from schemas.http import MissReason, Source
from schemas.manifest import Freshness
from schemas.routes import Generation
from tests.support.small_view import small_view

ENTITY = b"e1"
BASE = Generation(id="base", ordinal=1, buckets=3, codec=1, rows=9, computed_at_ms=1000)
OLDER = Generation(id="older", ordinal=2, buckets=1, codec=1, rows=9, computed_at_ms=2000)
NEWER = Generation(id="newer", ordinal=3, buckets=1, codec=1, rows=9, computed_at_ms=3000)


def view(*deltas: Generation, freshness: Freshness | None = None) -> VersionView:
    return small_view([BASE.model_copy(update={"deltas": deltas})], freshness).stable


def value(made: Generation | None, at_ms: int = 0, entity: bytes = ENTITY) -> bytes:
    ordinal = made.ordinal if made else LIVE_ORDINAL
    return pack(entity, ordinal, at_ms or (made.computed_at_ms if made else 0), np.ones(2, np.float32))


def test_one_question_for_each_set_and_one_for_what_was_written_back() -> None:
    keys = [key for key, _ in questions(view(OLDER, NEWER), ENTITY)]
    assert [key.rpartition(b":")[0] for key in keys] == [
        b"hs:delay:g:1:newer",
        b"hs:delay:g:1:older",
        b"hs:delay:g:1:base",
        b"hs:delay:l:1",
    ]
    assert len(questions(small_view().stable, ENTITY)) == 1


@pytest.mark.parametrize(
    ("replies", "generation", "source", "reason"),
    [
        ([value(NEWER), value(OLDER), value(BASE), None], "newer", Source.PRECOMPUTED, None),
        ([None, value(OLDER), value(BASE), None], "older", Source.PRECOMPUTED, None),
        ([None, None, value(BASE), None], "base", Source.PRECOMPUTED, None),
        ([value(NEWER), None, value(BASE), value(None, 2999)], "newer", Source.PRECOMPUTED, None),
        ([value(NEWER), None, value(BASE), value(None, 3001)], None, Source.CACHED, None),
        ([None, None, None, value(None, 1)], None, Source.CACHED, MissReason.NOT_SELECTED),
        ([b"junk", None, None, value(None, 1)], None, Source.CACHED, MissReason.CORRUPT),
        # A shard that fails costs its own values only.
        ([RedisDown(), None, value(BASE), BreakerOpen()], "base", Source.PRECOMPUTED, None),
        ([RedisSlow(), None, None, value(None, 1)], None, Source.CACHED, MissReason.REDIS_TIMEOUT),
    ],
)
def test_the_newest_computation_wins(
    replies: list[object], generation: str | None, source: Source, reason: MissReason | None
) -> None:
    found = choose(view(OLDER, NEWER), ENTITY, replies, NO_LIMITS)
    assert isinstance(found, Found)
    assert (found.generation, found.source, found.reason) == (generation, source, reason)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (None, MissReason.NOT_SELECTED),
        (b"", MissReason.CORRUPT),
        (value(BASE, entity=b"e2"), MissReason.FOREIGN),
        (value(OLDER), MissReason.FOREIGN),
        (7, MissReason.CORRUPT),
        (RedisSlow(), MissReason.REDIS_TIMEOUT),
        (BreakerOpen(), MissReason.BREAKER_OPEN),
        (RedisDown(), MissReason.CONNECTION_LOST),
        (hiredis.ReplyError("WRONGTYPE Operation against a key"), MissReason.CORRUPT),
        (hiredis.ReplyError("CLUSTERDOWN Hash slot not served"), MissReason.CONNECTION_LOST),
    ],
)
def test_why_there_is_none(reply: object, reason: MissReason) -> None:
    assert choose(view(), ENTITY, [reply, None], NO_LIMITS) is reason


def test_no_generation_is_its_own_reason() -> None:
    assert choose(small_view().stable, ENTITY, [None], NO_LIMITS) is MissReason.VERSION_NOT_PRECOMPUTED


def test_no_rule_no_limit() -> None:
    assert limits_of(view(), ENTITY, {b"another": 5}, None, 10**6) is NO_LIMITS
    assert NO_LIMITS.judge(0) is Verdict.FRESH


@pytest.mark.parametrize(
    ("age_s", "max_age_s", "verdict"),
    [
        (100, None, Verdict.FRESH),
        (101, None, Verdict.RENEW),
        (150, None, Verdict.RENEW),
        (151, None, Verdict.EXPIRED),
        (100, 99, Verdict.ASKED),
        (99, 99, Verdict.FRESH),
        (101, 100, Verdict.ASKED),
        (101, 1000, Verdict.RENEW),
        (0, 0, Verdict.FRESH),
        (1, 0, Verdict.ASKED),
    ],
)
def test_ages(age_s: int, max_age_s: int | None, verdict: Verdict) -> None:
    ruled = view(freshness=Freshness(max_age_s=100, stale_while_revalidate_s=50))
    wish_ms = None if max_age_s is None else 1000 * max_age_s
    limits = limits_of(ruled, ENTITY, {}, wish_ms, 1_000_000)
    assert limits.judge(1_000_000 - 1000 * age_s) is verdict


def test_invalidated_comes_before_all_else() -> None:
    ruled = view(freshness=Freshness(max_age_s=100))
    limits = limits_of(ruled, ENTITY, {ENTITY: 999_000}, None, 1_000_000)
    assert limits.judge(1) is Verdict.INVALIDATED
    assert limits.judge(999_000 + CLOCK_ERROR_MS) is Verdict.INVALIDATED
    assert limits.judge(999_001 + CLOCK_ERROR_MS) is Verdict.FRESH


def test_why_a_newer_result_is_answered_instead_of_the_precomputed_one() -> None:
    replies: list[object] = [value(BASE), value(None, 5000)]
    for limits, reason in (
        (NO_LIMITS, None),
        (Limits(2000, 2000), MissReason.EXPIRED),
        (Limits(invalidated_ms=1500), MissReason.INVALIDATED),
    ):
        found = choose(view(), ENTITY, replies, limits)
        assert isinstance(found, Found)
        assert (found.source, found.reason) == (Source.CACHED, reason)
