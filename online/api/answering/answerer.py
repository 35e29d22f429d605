"""From asked entities to outcomes: L1, one look-up for all, then the misses by way of flights to the live tier."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from online.api.answering.asking import Asking
from online.api.answering.brought import digest, transform
from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.flying import Flying
from online.api.answering.l1 import L1
from online.api.answering.outcome import Item, Outcome
from online.api.lookup.clock import RedisClock
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import Command, get
from online.api.lookup.values import Found, choose, questions, read
from online.api.routes.view import VersionView
from online.errors import (
    DeadlineExceeded,
    FeaturesUnavailable,
    LiveUnavailable,
    ModelError,
    Overloaded,
    ServingError,
)
from schemas.codec import LIVE_ORDINAL, Prediction
from schemas.http import MissReason, Source
from schemas.keys import input_key, live_key
from schemas.wire import Tensor

_ROUNDS = 3
_DEGRADED = (LiveUnavailable, Overloaded, DeadlineExceeded, FeaturesUnavailable, ModelError)


@dataclass(slots=True)
class _Miss:
    item: Item
    outcome: Outcome
    version: VersionView
    reason: MissReason
    tensors: list[Tensor] | None = None
    digest: bytes = b""


class Answerer:
    """One for all models of a worker; holds no state of a request."""

    def __init__(
        self,
        link: RedisLink,
        l1: L1,
        clock: RedisClock,
        flights: Flights,
        flying: Flying,
        keeps_inputs: bool = True,
    ) -> None:
        self._link, self._l1, self._clock, self._flights, self._flying = link, l1, clock, flights, flying
        self._keeps_inputs = keeps_inputs
        self._loop = asyncio.get_running_loop()

    async def answer(self, asking: Asking, items: Sequence[Item]) -> list[Outcome]:
        """An outcome for each item, in order.

        Raises:
            ClientGone: nobody waits for them any more.
        """
        if len(items) == 1 and items[0].record is None:
            outcomes, misses = await self._look_up_one(asking, items[0])
        else:
            outcomes, misses = await self._look_up(asking, items)
        if misses:
            await self._compute(asking, misses)
        for outcome in outcomes:
            if outcome.outputs is not None and outcome.version is not None:
                outcome.answer = outcome.version.maker.answer(outcome.outputs)
        return outcomes

    async def _look_up_one(self, asking: Asking, item: Item) -> tuple[list[Outcome], list[_Miss]]:
        """As `_look_up`, without its lists: most requests are one entity that is a hit."""
        began_ns, now_ms = time.perf_counter_ns(), self._clock.now_ms()
        version = asking.view.resolve(item.raw)
        outcome, misses = Outcome(entity=item.entity, version=version), []
        if not self._is_in_l1(version, item.raw, outcome, now_ms):
            miss = _Miss(item, outcome, version, MissReason.NOT_IN_GENERATION)
            misses = await self._ask_redis([miss], now_ms)
        outcome.lookup_us = (time.perf_counter_ns() - began_ns) // 1000
        return [outcome], misses

    async def _look_up(self, asking: Asking, items: Sequence[Item]) -> tuple[list[Outcome], list[_Miss]]:
        began_ns, now_ms = time.perf_counter_ns(), self._clock.now_ms()
        outcomes, open_ = [], []
        brought = await self._brought(asking, items)
        for place, item in enumerate(items):
            version = asking.view.resolve(item.raw)
            outcome = Outcome(entity=item.entity, version=version)
            outcomes.append(outcome)
            if item.record is not None:
                outcome.is_caller_features, outcome.record = True, item.record
                tensors, reason = brought[place], MissReason.CALLER_FEATURES
                if isinstance(tensors, Overloaded):
                    outcome.miss_reason = reason
                    self._settle(_Miss(item, outcome, version, reason), tensors)
                elif isinstance(tensors, ServingError):
                    outcome.error = tensors
                else:
                    open_.append(_Miss(item, outcome, version, reason, tensors, self._name(version, tensors)))
            elif not self._is_in_l1(version, item.raw, outcome, now_ms):
                open_.append(_Miss(item, outcome, version, MissReason.NOT_IN_GENERATION))
        if brought:
            features_us = (time.perf_counter_ns() - began_ns) // 1000
            for place in brought:
                outcomes[place].features_us = features_us
        misses = await self._ask(open_, now_ms) if open_ else []
        lookup_us = (time.perf_counter_ns() - began_ns) // 1000
        for outcome in outcomes:
            outcome.lookup_us = lookup_us - (outcome.features_us or 0)
        return outcomes, misses

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

    def _is_in_l1(self, version: VersionView, entity: bytes, outcome: Outcome, now_ms: int) -> bool:
        if version.generation is None or (packed := self._l1.get(version.l1_prefix + entity)) is None:
            return False
        found = read(version, entity, version.generation.ordinal, packed, now_ms)
        if not isinstance(found, Prediction):
            return False
        _hit(outcome, version, Found(found, Source.PRECOMPUTED, None, packed))
        return True

    async def _ask(self, open_: list[_Miss], now_ms: int) -> list[_Miss]:
        """Looks all of them up in one write; returns those that remain misses, with the reason."""
        if not self._keeps_inputs:
            unasked = [miss for miss in open_ if miss.tensors is not None]
            open_ = [miss for miss in open_ if miss.tensors is None]
            return unasked + (await self._ask_redis(open_, now_ms) if open_ else [])
        return await self._ask_redis(open_, now_ms)

    async def _ask_redis(self, open_: list[_Miss], now_ms: int) -> list[_Miss]:
        commands: list[Command] = []
        ends = []
        for miss in open_:
            if miss.tensors is None:
                commands += questions(miss.version, miss.item.raw)
            else:
                commands.append(get(_input_key(miss)))
            ends.append(len(commands))
        try:
            replies = await self._link.ask(commands)
        except RedisSlow:
            return _all_missed(open_, MissReason.REDIS_SLOW)
        except RedisDown:
            return _all_missed(open_, MissReason.REDIS_DOWN)
        misses, at = [], 0
        for miss, end in zip(open_, ends, strict=True):
            if not self._settle_stored(miss, replies[at:end], now_ms):
                misses.append(miss)
            at = end
        return misses

    def _settle_stored(self, miss: _Miss, replies: list[object], now_ms: int) -> bool:
        version, entity = miss.version, miss.item.raw
        if miss.tensors is not None:
            kept = read(version, miss.digest, LIVE_ORDINAL, replies[0], now_ms)
            if not isinstance(kept, Prediction):
                return False
            _hit(miss.outcome, version, Found(kept, Source.CACHED, miss.reason, b""))
            return True
        found = choose(version, entity, replies, now_ms)
        if not isinstance(found, Found):
            miss.reason = found
            return False
        _hit(miss.outcome, version, found)
        if found.source is Source.PRECOMPUTED and isinstance(found.packed, bytes):
            self._l1.put(version.l1_prefix + entity, found.packed)
        return True

    async def _compute(self, asking: Asking, misses: list[_Miss]) -> None:
        by_version: dict[VersionView, list[_Miss]] = {}
        for miss in misses:
            miss.outcome.miss_reason = miss.reason
            by_version.setdefault(miss.version, []).append(miss)
        if len(by_version) == 1:
            await self._compute_version(asking, misses[0].version, misses)
            return
        async with asyncio.TaskGroup() as group:
            for version, some in by_version.items():
                group.create_task(self._compute_version(asking, version, some))

    async def _compute_version(self, asking: Asking, version: VersionView, misses: list[_Miss]) -> None:
        # Where no results of brought features are kept, it has just been asked for these.
        if self._keeps_inputs or misses[0].tensors is None:
            refusal = self._flying.refusal(version, asking.deadline_s, len(misses))
            if refusal is not None:
                for miss in misses:
                    self._settle(miss, refusal)
                return
        fly = partial(self._flying.fly, asking.view, version, asking.deadline_s)
        for last in reversed(range(_ROUNDS)):
            wanted = [self._flight(miss) for miss in misses]
            wait = self._flights.board(wanted, fly)
            try:
                await asking.wait(wait.done)
            finally:
                self._flights.leave(wait)
            again = []
            for miss, mine, flown in zip(misses, wanted, wait.flights, strict=True):
                result = flown.result or DeadlineExceeded("no answer within the deadline")
                is_others = (
                    flown.result is not None
                    and flown is not mine
                    and isinstance(result, DeadlineExceeded | LiveUnavailable)
                )
                if is_others and last and self._loop.time() < asking.deadline_s:
                    again.append(miss)
                else:
                    self._settle(miss, result)
            if not again:
                return
            misses = again

    def _flight(self, miss: _Miss) -> Flight:
        entity = miss.item.raw
        if miss.tensors is None:
            key = live_key(miss.version.model, miss.version.name, entity)
            return Flight((miss.version.digest, b"e" + entity), entity, entity, key, None, None)
        name = miss.digest
        return Flight(
            (miss.version.digest, b"i" + name),
            entity,
            name,
            _input_key(miss) if self._keeps_inputs else b"",
            miss.item.record,
            miss.tensors,
        )

    def _settle(self, miss: _Miss, result: LiveResult | ServingError) -> None:
        outcome = miss.outcome
        if isinstance(result, LiveResult):
            outcome.source, outcome.outputs, outcome.live = Source.LIVE, result.outputs, result
            outcome.computed_at_ms, outcome.record = result.computed_at_ms, result.record
            if not outcome.is_caller_features:
                outcome.features_us = result.features_us
        elif isinstance(result, _DEGRADED) and miss.version.gives_default:
            outcome.source, outcome.outputs = Source.DEFAULT, miss.version.maker.default
            outcome.computed_at_ms = self._clock.now_ms()
        else:
            outcome.error = result


def _hit(outcome: Outcome, version: VersionView, found: Found) -> None:
    outcome.source, outcome.outputs = found.source, found.prediction.outputs
    outcome.computed_at_ms, outcome.miss_reason = found.prediction.computed_at_ms, found.reason
    if found.source is Source.PRECOMPUTED and version.generation is not None:
        outcome.generation = version.generation.id


def _input_key(miss: _Miss) -> bytes:
    return input_key(miss.version.model, miss.version.name, miss.digest.decode()).encode()


def _all_missed(misses: list[_Miss], reason: MissReason) -> list[_Miss]:
    for miss in misses:
        if miss.tensors is None:
            miss.reason = reason
    return misses
