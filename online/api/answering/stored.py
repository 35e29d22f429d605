"""What is stored of entities: L1, then one look-up for all, judged by what the model and the request allow.

What it finds becomes an outcome; what it does not is a miss with its reason, which `computing.py` takes on.
"""

import time
from collections.abc import Callable
from typing import Protocol

from online.api.answering.asking import Asking
from online.api.answering.cap import FreshCap
from online.api.answering.l1 import L1
from online.api.answering.miss import Miss, answer_by, kept_input_key
from online.api.answering.outcome import Item, Outcome
from online.api.answering.renewals import Renewals
from online.api.lookup.clock import RedisClock
from online.api.lookup.connection import BreakerOpen, RedisDown, RedisSlow
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command, get
from online.api.lookup.values import (
    NO_LIMITS,
    Found,
    Limits,
    Verdict,
    choose,
    limits_of,
    questions,
    read,
    reason_of,
)
from online.api.routes.view import VersionView
from schemas.codec import LIVE_ORDINAL, Prediction
from schemas.http import MissReason, Source


class Waiting(Protocol):
    """Who waits for a look-up is told once, and does not raise."""

    def on_answer(self, outcome: Outcome) -> None: ...
    def on_miss(self, miss: Miss) -> None: ...
    def on_error(self, error: Exception) -> None: ...


class _Replies:
    """Takes the replies to the look-up of one item in the place of a future: see `Sink`."""

    __slots__ = ("_asking", "_began_ns", "_is_done", "_miss", "_settle", "_waiting")

    def __init__(
        self,
        settle: Callable[[Asking, Miss, list[object]], bool],
        asking: Asking,
        miss: Miss,
        began_ns: int,
        waiting: Waiting,
    ) -> None:
        self._settle, self._asking, self._miss = settle, asking, miss
        self._began_ns, self._waiting = began_ns, waiting
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, replies: list[object]) -> None:
        self._is_done = True
        miss = self._miss
        try:
            is_settled = self._settle(self._asking, miss, replies)
            miss.outcome.lookup_us = (time.perf_counter_ns() - self._began_ns) // 1000
            if is_settled:
                make_answer(miss.outcome)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs this request, not the connection's others
            self._waiting.on_error(error)
            return
        if is_settled:
            self._waiting.on_answer(miss.outcome)
        else:
            self._waiting.on_miss(miss)

    def set_exception(self, error: Exception) -> None:
        self._is_done = True
        miss = self._miss
        if miss.tensors is None:
            miss.reason = reason_of(error)
        miss.outcome.lookup_us = (time.perf_counter_ns() - self._began_ns) // 1000
        self._waiting.on_miss(miss)


class Stored:
    """One for all models of a worker; holds no state of a request."""

    def __init__(
        self,
        link: RedisLink,
        l1: L1,
        clock: RedisClock,
        invalidations: Invalidations,
        cap: FreshCap,
        renewals: Renewals,
        keeps_inputs: bool,
    ) -> None:
        self._link, self._l1, self._clock = link, l1, clock
        self._invalidations, self._cap, self._renewals = invalidations, cap, renewals
        self._keeps_inputs = keeps_inputs

    def look_up(self, asking: Asking, item: Item, waiting: Waiting) -> None:
        """Answers one entity from what is stored, without a task: most requests are that, and a hit.

        Args:
            item: without features of its own, asked for without a wish.
            waiting: told before this returns, or where the replies are read.
        """
        began_ns, now_ms = time.perf_counter_ns(), self._clock.now_ms()
        version = asking.view.resolve(item.raw)
        outcome = Outcome(entity=item.entity, version=version)
        limits = self.limits(asking, version, item.raw, now_ms)
        if self.is_in_l1(asking, version, item.raw, outcome, limits):
            outcome.lookup_us = (time.perf_counter_ns() - began_ns) // 1000
            make_answer(outcome)
            waiting.on_answer(outcome)
            return
        replies = self._replies(asking, item, outcome, limits, began_ns, waiting)
        if self._invalidations.of(version.model) is None:
            replies.set_exception(BreakerOpen("what does not count any more is not known yet"))
        else:
            self._link.send(questions(version, item.raw), replies)

    def look_up_brought(self, asking: Asking, miss: Miss, waiting: Waiting) -> None:
        """As `look_up`, for features that the caller brought."""
        replies = _Replies(self._settle_stored, asking, miss, time.perf_counter_ns(), waiting)
        is_asked = self._keeps_inputs and not (asking.wish.is_no_cache and self._cap.take(miss.version.model))
        if not is_asked:
            miss.outcome.lookup_us = 0
            waiting.on_miss(miss)
        elif self._invalidations.of(miss.version.model) is None:
            replies.set_exception(BreakerOpen("what does not count any more is not known yet"))
        else:
            self._link.send([get(kept_input_key(miss))], replies)

    def looked_up(
        self, asking: Asking, item: Item, waiting: Waiting, began_ns: int, found: list[object] | Exception
    ) -> None:
        """As `look_up`, where somebody else has asked Redis: with its replies, or why there are none."""
        version = asking.view.resolve(item.raw)
        outcome = Outcome(entity=item.entity, version=version)
        limits = self.limits(asking, version, item.raw, self._clock.now_ms())
        replies = self._replies(asking, item, outcome, limits, began_ns, waiting)
        if isinstance(found, Exception):
            replies.set_exception(found)
        else:
            replies.set_result(found)

    def _replies(
        self, asking: Asking, item: Item, outcome: Outcome, limits: Limits, began_ns: int, waiting: Waiting
    ) -> _Replies:
        version = asking.view.resolve(item.raw)
        miss = Miss(item, outcome, version, MissReason.NOT_SELECTED, limits)
        return _Replies(self._settle_stored, asking, miss, began_ns, waiting)

    def limits(self, asking: Asking, version: VersionView, entity: bytes, now_ms: int) -> Limits:
        invalidated = self._invalidations.of(version.model)
        return limits_of(version, entity, invalidated or {}, asking.wish.max_age_ms, now_ms)

    def is_in_l1(
        self, asking: Asking, version: VersionView, entity: bytes, outcome: Outcome, limits: Limits
    ) -> bool:
        if asking.wish.is_no_cache or not version.layers:
            return False
        kept = self._l1.get(version.l1_prefix + entity)
        if kept is None or (limits is not NO_LIMITS and limits.judge(kept.computed_at_ms) is not Verdict.FRESH):
            return False  # Redis may have a newer one
        kept.give(outcome)
        return True

    def settle(self, asking: Asking, miss: Miss, found: list[object] | Exception) -> bool:
        """Whether Redis's replies have become the answer; where not, the miss has its reason."""
        if isinstance(found, Exception):
            miss.reason = reason_of(found)
            return False
        return self._settle_stored(asking, miss, found)

    async def ask(self, asking: Asking, open_: list[Miss]) -> list[Miss]:
        """Looks all of them up in one write; returns those that remain misses, with the reason."""
        asked, unasked = [], []
        for miss in open_:
            if miss.tensors is not None and not self._keeps_inputs:
                unasked.append(miss)
            elif asking.wish.is_no_cache and self._cap.take(miss.version.model):
                if miss.tensors is None:
                    miss.reason = MissReason.NO_CACHE
                unasked.append(miss)
            else:
                asked.append(miss)
        return unasked + (await self._ask_redis(asking, asked) if asked else [])

    async def _ask_redis(self, asking: Asking, open_: list[Miss]) -> list[Miss]:
        if self._invalidations.of(asking.view.document.model) is None:
            return _all_missed(open_, MissReason.BREAKER_OPEN)  # what does not count any more is not known yet
        commands: list[Command] = []
        ends = []
        for miss in open_:
            if miss.tensors is None:
                commands += questions(miss.version, miss.item.raw)
            else:
                commands.append(get(kept_input_key(miss)))
            ends.append(len(commands))
        try:
            replies = await self._link.ask(commands)
        except (RedisSlow, RedisDown) as error:
            return _all_missed(open_, reason_of(error))
        misses, at = [], 0
        for miss, end in zip(open_, ends, strict=True):
            if not self._settle_stored(asking, miss, replies[at:end]):
                misses.append(miss)
            at = end
        return misses

    def _settle_stored(self, asking: Asking, miss: Miss, replies: list[object]) -> bool:
        """Whether a stored value has become the answer."""
        version, entity, limits = miss.version, miss.item.raw, miss.limits
        if miss.tensors is not None:
            kept = read(version, miss.digest, LIVE_ORDINAL, replies[0])
            if not isinstance(kept, Prediction):
                return False
            found = Found(kept, Source.CACHED, miss.reason, None)
        else:
            chosen = choose(version, entity, replies, limits)
            if isinstance(chosen, MissReason):
                miss.reason = chosen
                return False
            found = chosen
        verdict = Verdict.FRESH if limits is NO_LIMITS else limits.judge(found.prediction.computed_at_ms)
        if verdict is not Verdict.FRESH and not self._may_answer(asking, miss, found, verdict):
            return False
        answer_by(miss.outcome, found)
        if asking.wish.is_no_cache:
            miss.outcome.is_wish_refused = True
        if verdict is Verdict.FRESH and found.source is Source.PRECOMPUTED:
            miss.outcome.keep_as = version.l1_prefix + entity
        return True

    def _may_answer(self, asking: Asking, miss: Miss, found: Found, verdict: Verdict) -> bool:
        """Whether a value that is not fresh is answered all the same; if not, why it is a miss."""
        is_brought, limits = miss.tensors is not None, miss.limits
        if verdict is Verdict.ASKED and not self._cap.take(miss.version.model):
            is_fresh = found.prediction.computed_at_ms >= limits.fresh_from_ms
            miss.outcome.is_wish_refused = is_fresh or not is_brought
            if is_fresh:
                return True
            verdict = Verdict.RENEW
        if verdict is Verdict.RENEW and not is_brought:
            self._renewals.start(asking.view, miss.version, miss.item.raw, limits.invalidated_ms)
            return True
        if not is_brought:
            is_invalidated = verdict is Verdict.INVALIDATED
            miss.reason = MissReason.INVALIDATED if is_invalidated else MissReason.EXPIRED
            miss.expired = None if is_invalidated else found
        return False


def make_answer(outcome: Outcome) -> None:
    if outcome.answer is None and outcome.outputs is not None and outcome.version is not None:
        outcome.answer = outcome.version.maker.answer(outcome.outputs)


def _all_missed(misses: list[Miss], reason: MissReason) -> list[Miss]:
    for miss in misses:
        if miss.tensors is None:
            miss.reason = reason
    return misses
