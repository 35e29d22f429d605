"""Misses to answers: by flights to the live tier, or what the model's policy gives where that cannot answer."""

import asyncio
from collections.abc import Sequence
from functools import partial

from online.api.answering.asking import Asking
from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.flying import Flying
from online.api.answering.l1 import L1
from online.api.answering.miss import Miss, flight_subject, kept_input_key
from online.api.answering.single import OF_THE_LEADER, Computed, Single
from online.api.answering.spares import Spares
from online.api.lookup.clock import RedisClock
from online.api.routes.view import VersionView
from online.errors import (
    DeadlineExceeded,
    FeaturesUnavailable,
    LiveUnavailable,
    ModelError,
    Overloaded,
    ServingError,
    UnknownEntity,
)
from schemas.http import MissReason, Source
from schemas.keys import live_key

_DEGRADED = (LiveUnavailable, Overloaded, DeadlineExceeded, FeaturesUnavailable, ModelError)


class Computing:
    """One for all models of a worker; holds no state of a request."""

    def __init__(
        self, flights: Flights, flying: Flying, spares: Spares, l1: L1, clock: RedisClock, keeps_inputs: bool
    ) -> None:
        self._flights, self._flying, self._spares = flights, flying, spares
        self._l1, self._clock, self._keeps_inputs = l1, clock, keeps_inputs
        self._loop = asyncio.get_running_loop()

    def begin(self, asking: Asking, miss: Miss, computed: Computed) -> None:
        """As `compute` for one miss that brought its features, without a task."""
        miss.outcome.miss_reason = miss.reason
        if (refusal := self._refusal(asking, miss.version, [miss])) is not None:
            self.settle(miss, refusal[0])
            computed.on_answer(miss.outcome)
            return
        start = partial(self._flying.start, miss.version, asking.deadline_s, asking.trace)
        Single(asking, miss, computed, self.settle).board(self._flights, self._flight(miss), start)

    async def compute(self, asking: Asking, misses: Sequence[Miss]) -> None:
        """Every outcome has an answer or an error. Raises ClientGone."""
        by_version: dict[VersionView, list[Miss]] = {}
        for miss in misses:
            miss.outcome.miss_reason = miss.reason
            by_version.setdefault(miss.version, []).append(miss)
        if len(by_version) == 1:
            await self._compute_version(asking, misses[0].version, misses)
            return
        async with asyncio.TaskGroup() as group:
            for version, some in by_version.items():
                group.create_task(self._compute_version(asking, version, some))

    async def _compute_version(self, asking: Asking, version: VersionView, misses: Sequence[Miss]) -> None:
        # Asked for now, since at the deadline there is no time to.
        spare = self._spares.ask(version, misses) if "stale" in version.fallbacks else None
        results = self._refusal(asking, version, misses) or await self._fly(asking, version, misses)
        if spare is not None and any(isinstance(result, _DEGRADED) for result in results):
            await spare.settled(asking.deadline_s)
        for miss, result in zip(misses, results, strict=True):
            self.settle(miss, result)

    def _refusal(self, asking: Asking, version: VersionView, misses: Sequence[Miss]) -> list[Overloaded] | None:
        # Where no results of brought features are kept, it has just been asked for these.
        if not self._keeps_inputs and misses[0].tensors is not None:
            return None
        refusal = self._flying.refusal(version, asking.deadline_s, len(misses))
        return None if refusal is None else [refusal] * len(misses)

    async def _fly(
        self, asking: Asking, version: VersionView, misses: Sequence[Miss]
    ) -> list[LiveResult | ServingError]:
        """A result for each. Where another's flight fails, a caller that still has time flies its own."""
        fly = partial(self._flying.fly, asking.view, version, asking.deadline_s, trace=asking.trace)
        results: list[LiveResult | ServingError] = [DeadlineExceeded("no answer within the deadline")] * len(
            misses
        )
        open_ = list(range(len(misses)))
        while open_:
            wanted = [self._flight(misses[place]) for place in open_]
            wait = self._flights.board(wanted, fly)
            try:
                await asking.wait(wait.done)
            finally:
                self._flights.leave(wait.wait)
            has_time = self._loop.time() < asking.deadline_s
            again, own = [], set(wanted)
            for place, flown in zip(open_, wait.flights, strict=True):
                if flown.result is None:
                    continue  # the deadline has passed
                results[place] = flown.result
                if flown not in own and has_time and isinstance(flown.result, OF_THE_LEADER):
                    again.append(place)
            open_ = again
        return results

    def _flight(self, miss: Miss) -> Flight:
        entity = miss.item.raw
        if miss.tensors is None:
            key = live_key(miss.version.model, miss.version.name, entity)
            subject = flight_subject(entity, miss.limits.invalidated_ms)
            return Flight((miss.version.digest, subject), entity, entity, key, None, None)
        name = miss.digest
        return Flight(
            (miss.version.digest, b"i" + name),
            entity,
            name,
            kept_input_key(miss) if self._keeps_inputs else b"",
            miss.item.record,
            miss.tensors,
        )

    def settle(self, miss: Miss, result: LiveResult | ServingError) -> None:
        outcome = miss.outcome
        if isinstance(result, LiveResult):
            outcome.source, outcome.outputs, outcome.live = Source.LIVE, result.outputs, result
            outcome.computed_at_ms, outcome.record = result.computed_at_ms, result.record
            if not outcome.is_caller_features:
                outcome.features_us = result.features_us
                # What was kept here is older now than what others find in Redis.
                self._l1.drop(miss.version.l1_prefix + miss.item.raw)
            return
        if isinstance(result, UnknownEntity) and miss.reason is MissReason.NOT_SELECTED:
            outcome.miss_reason = MissReason.NEW_ENTITY
        fallbacks = miss.version.fallbacks if isinstance(result, _DEGRADED) else ()
        if not any(self._fall_back(miss, kind) for kind in fallbacks):
            outcome.error = result

    def _fall_back(self, miss: Miss, kind: str) -> bool:
        outcome, now_ms = miss.outcome, self._clock.now_ms()
        if kind == "default":
            outcome.source, outcome.outputs = Source.DEFAULT, miss.version.maker.default
            outcome.computed_at_ms = now_ms
            return True
        found = self._spares.usable(miss, now_ms)
        if found is not None:
            outcome.source, outcome.outputs = Source.STALE, found.prediction.outputs
            outcome.computed_at_ms, outcome.generation = found.prediction.computed_at_ms, found.generation
        return found is not None
