"""From asked entities, with features of their own or without, to outcomes: what is stored, or is computed."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from online.api.answering.asking import Asking
from online.api.answering.brought import digest, transform, transform_now
from online.api.answering.computing import Computing
from online.api.answering.flying import Flying
from online.api.answering.miss import Miss
from online.api.answering.outcome import Item, Outcome
from online.api.answering.single import Computed
from online.api.answering.stored import Stored, Waiting, make_answer
from online.api.lookup.clock import RedisClock
from online.api.lookup.values import (
    limits_of,
)
from online.api.routes.view import VersionView
from online.errors import NotStored, Overloaded, ServingError
from schemas.http import MissReason
from schemas.wire import Tensor


class LookedUp(NamedTuple):
    """A look-up of items that somebody else has begun: for each Redis's replies, why there are none, or None."""

    found: Sequence[list[object] | Exception | None]
    began_ns: int


class Answerer:
    """One for all models of a worker; holds no state of a request."""

    def __init__(
        self, stored: Stored, computing: Computing, flying: Flying, clock: RedisClock, keeps_inputs: bool
    ) -> None:
        self._stored, self._computing, self._flying, self._clock = stored, computing, flying, clock
        self._keeps_inputs = keeps_inputs

    async def answer(
        self, asking: Asking, items: Sequence[Item], looked_up: "LookedUp | None" = None
    ) -> list[Outcome]:
        """An outcome for each item, in order.

        Raises:
            ClientGone: nobody waits for them any more.
        """
        outcomes, misses = await self._look_up(asking, items, looked_up)
        if misses:
            await self.compute(asking, misses)
        for outcome in outcomes:
            make_answer(outcome)
        return outcomes

    def begin(self, asking: Asking, item: Item, waiting: Waiting) -> bool:
        """As `answer` for one item that brings features, without a task. False, and nothing is done, for text:
        it may take a thread.
        """
        version = asking.view.resolve(item.raw)
        if version.transform.has_text:
            return False
        began_ns = time.perf_counter_ns()
        outcome = Outcome(entity=item.entity, version=version)
        busy = None if self._keeps_inputs else self._flying.refusal(version, asking.deadline_s, 1)
        tensors = busy or transform_now(version, [item.record or {}])[0]
        miss = self._with_features(asking, item, outcome, version, tensors, self._clock.now_ms())
        outcome.features_us, outcome.lookup_us = (time.perf_counter_ns() - began_ns) // 1000, 0
        if miss is None:
            make_answer(outcome)
            waiting.on_answer(outcome)
        else:
            self._stored.look_up_brought(asking, miss, waiting)
        return True

    def compute_soon(self, asking: Asking, miss: Miss, computed: Computed) -> None:
        """As `compute` for one miss that brought its features, without a task."""
        if asking.wish.is_only_if_cached:
            _refuse([miss])
            computed.on_answer(miss.outcome)
        else:
            self._computing.begin(asking, miss, computed)

    async def compute(self, asking: Asking, misses: Sequence[Miss]) -> None:
        """Gives each miss's outcome an answer from the live tier or by the model's policy, or an error.

        Raises:
            ClientGone: nobody waits for them any more.
        """
        if asking.wish.is_only_if_cached:
            _refuse(misses)
            return
        await self._computing.compute(asking, misses)
        for miss in misses:
            make_answer(miss.outcome)

    async def _look_up(
        self, asking: Asking, items: Sequence[Item], looked_up: "LookedUp | None"
    ) -> tuple[list[Outcome], list[Miss]]:
        began_ns = time.perf_counter_ns() if looked_up is None else looked_up.began_ns
        now_ms = self._clock.now_ms()
        outcomes, open_, missed = [], [], []
        brought = await self._brought(asking, items)
        for place, item in enumerate(items):
            version = asking.view.resolve(item.raw)
            outcome = Outcome(entity=item.entity, version=version)
            outcomes.append(outcome)
            if place in brought:
                if (
                    miss := self._with_features(asking, item, outcome, version, brought[place], now_ms)
                ) is not None:
                    open_.append(miss)
                continue
            limits = self._stored.limits(asking, version, item.raw, now_ms)
            found = None if looked_up is None else looked_up.found[place]
            if found is not None:
                miss = Miss(item, outcome, version, MissReason.NOT_SELECTED, limits)
                if not self._stored.settle(asking, miss, found):
                    missed.append(miss)
            elif not self._stored.is_in_l1(asking, version, item.raw, outcome, limits):
                open_.append(Miss(item, outcome, version, MissReason.NOT_SELECTED, limits))
        if brought:
            features_us = (time.perf_counter_ns() - began_ns) // 1000
            for place in brought:
                outcomes[place].features_us = features_us
        misses = missed + (await self._stored.ask(asking, open_) if open_ else [])
        lookup_us = (time.perf_counter_ns() - began_ns) // 1000
        for outcome in outcomes:
            outcome.lookup_us = lookup_us - (outcome.features_us or 0)
        return outcomes, misses

    def _with_features(
        self,
        asking: Asking,
        item: Item,
        outcome: Outcome,
        version: VersionView,
        tensors: list[Tensor] | ServingError,
        now_ms: int,
    ) -> Miss | None:
        """What is to be asked for an item that brings features; None where that is settled."""
        outcome.is_caller_features, outcome.record = True, item.record
        reason = MissReason.CALLER_FEATURES
        if isinstance(tensors, Overloaded):
            outcome.miss_reason = reason
            self._computing.settle(Miss(item, outcome, version, reason), tensors)
            return None
        if isinstance(tensors, ServingError):
            outcome.error = tensors
            return None
        # An entity's invalidation says nothing of features that were brought.
        limits = limits_of(version, b"", {}, asking.wish.max_age_ms, now_ms)
        return Miss(item, outcome, version, reason, limits, tensors, self._name(version, tensors))

    async def _brought(self, asking: Asking, items: Sequence[Item]) -> dict[int, list[Tensor] | ServingError]:
        """Tensors of the items that bring features, by place: one transform for each version.

        None at all for a version whose live tier is known to refuse, where no kept result could answer instead.
        """
        by_version: dict[VersionView, list[int]] = {}
        for place, item in enumerate(items):
            if item.record is not None:
                by_version.setdefault(asking.view.resolve(item.raw), []).append(place)
        found: dict[int, list[Tensor] | ServingError] = {}
        for version, places in by_version.items():
            if not self._keeps_inputs:
                busy = self._flying.refusal(version, asking.deadline_s, len(places))
                if busy is not None:
                    found |= dict.fromkeys(places, busy)
                    continue
            records = [items[place].record or {} for place in places]
            found |= zip(places, await transform(version, records), strict=True)
        return found

    def _name(self, version: VersionView, tensors: Sequence[Tensor]) -> bytes:
        """By which identical brought features are known; a digest where it is a key in Redis."""
        if self._keeps_inputs:
            return digest(version, tensors)
        return b"|".join([str(tensor.shape).encode() + tensor.tobytes() for tensor in tensors])


def _refuse(misses: Sequence[Miss]) -> None:
    for miss in misses:
        miss.outcome.miss_reason = miss.reason
        miss.outcome.error = NotStored("no stored answer is fresh enough, and `only-if-cached` wants no other")
