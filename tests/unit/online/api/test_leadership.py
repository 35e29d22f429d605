"""Single flight under random failures and cancellations: whoever fails or leaves, fails nobody else with it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from online.api.answering.asking import Asking
from online.api.answering.computing import Computing
from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.flying import Flying
from online.api.answering.l1 import L1
from online.api.answering.miss import Miss
from online.api.answering.outcome import Item, Outcome
from online.api.answering.spares import Spares
from online.api.lookup.clock import RedisClock
from online.api.routes.view import ModelView
from online.errors import DeadlineExceeded, LiveUnavailable, ModelError, Overloaded
from schemas.http import MissReason, Source
from tests.support.small_view import small_view

_MS = 0.001


@dataclass
class Connected:
    on_lost: set[Any] = field(default_factory=set)
    is_lost: bool = False


class Tier:
    """Answers after `work_s`, or as the script says: one word for each flight, then `ok` for ever."""

    def __init__(self, script: Sequence[str], work_s: float) -> None:
        self._script, self._work_s = list(script), work_s
        self.failed: set[float] = set()
        self.at_work = 0

    def refusal(self, version: object, deadline_s: float, rows: int) -> None:
        return None

    async def fly(
        self, view: object, version: object, deadline_s: float, flights: Sequence[Flight], trace: object = None
    ) -> None:
        word = self._script.pop(0) if self._script else "ok"
        self.at_work += 1
        try:
            left_s = deadline_s - asyncio.get_running_loop().time()
            await asyncio.sleep(min(self._work_s, max(0.0, left_s)))
            if left_s < self._work_s:
                word = "late"
            if word != "ok":
                self.failed.add(deadline_s)
            if word == "crash":
                raise RuntimeError("a mistake in a flight")
            result = {
                "ok": LiveResult(np.ones(2, np.float32), 1, {}, 0, 0, 0, 0, 1),
                "late": DeadlineExceeded("late"),
                "lost": LiveUnavailable("lost"),
                "busy": Overloaded("busy"),
            }[word]
            for flight in flights:
                flight.land(result)
        finally:
            self.at_work -= 1


@dataclass
class Caller:
    """When it comes, how long it waits, and when it is cancelled, in ms; whom it asks for."""

    start: int
    patience: int
    leaves: int | None
    entities: list[str]


CALLERS = st.lists(
    st.builds(
        Caller,
        st.integers(0, 6),
        st.integers(1, 40),
        st.none() | st.integers(0, 12),
        st.lists(st.sampled_from("ab"), min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=8,
)


def computing_with(tier: Tier, flights: Flights) -> Computing:
    never = cast(Any, None)
    return Computing(flights, cast(Flying, tier), Spares(never), L1(0), cast(RedisClock, never), False)


async def ask(computing: Computing, view: ModelView, entities: Sequence[str], deadline_s: float) -> list[Outcome]:
    misses = [
        Miss(Item(entity, entity.encode()), Outcome(entity, view.stable), view.stable, MissReason.NOT_SELECTED)
        for entity in entities
    ]
    await computing.compute(Asking(view, deadline_s, Connected()), misses)
    return [miss.outcome for miss in misses]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CALLERS, st.lists(st.sampled_from(["ok", "lost", "busy", "crash"]), max_size=5), st.integers(1, 10))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whoever_fails_or_leaves_fails_nobody_else(callers: list[Caller], script: list[str], work_ms: int) -> None:
    asyncio.run(_play(callers, script, work_ms * _MS))


async def _play(callers: list[Caller], script: list[str], work_s: float) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # a crashed flight's task says so itself
    flights, tier, view = Flights(), Tier(script, work_s), small_view()
    computing = computing_with(tier, flights)
    began_s = loop.time()

    async def play(place: int, caller: Caller) -> None:
        await asyncio.sleep(caller.start * _MS)
        # A deadline of its own, by which its flights are known.
        deadline_s = began_s + (caller.start + caller.patience) * _MS + place * 1e-6
        outcomes = await ask(computing, view, caller.entities, deadline_s)
        for outcome in outcomes:
            if outcome.error is not None:
                is_its_own = deadline_s in tier.failed
                assert is_its_own or loop.time() >= deadline_s, f"{outcome.error!r} was not its own"
            else:
                assert outcome.source is Source.LIVE

    tasks = [asyncio.create_task(play(place, caller)) for place, caller in enumerate(callers)]
    for task, caller in zip(tasks, callers, strict=True):
        if caller.leaves is not None:
            loop.call_later(caller.leaves * _MS, task.cancel)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for caller, found in zip(callers, done, strict=True):
        is_cancelled = isinstance(found, asyncio.CancelledError) and caller.leaves is not None
        assert found is None or is_cancelled, repr(found)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert tier.at_work == 0, "work goes on that nobody waits for"


async def test_leadership_passes_on_as_often_as_needed() -> None:
    """Five leaders in a row run out of time; the caller that has time is answered all the same."""
    flights, tier, view = Flights(), Tier([], 0.05), small_view()
    computing = computing_with(tier, flights)
    now_s = asyncio.get_running_loop().time()
    hasty = [asyncio.create_task(ask(computing, view, ["a"], now_s + 0.02 * step)) for step in range(1, 6)]
    (patient,) = await ask(computing, view, ["a"], now_s + 5)
    assert patient.source is Source.LIVE
    for (outcome,) in await asyncio.gather(*hasty):
        assert isinstance(outcome.error, DeadlineExceeded) or outcome.source is Source.LIVE


async def test_what_is_wrong_with_a_row_is_told_to_all_who_asked_for_it_at_once() -> None:
    class Failing(Tier):
        async def fly(
            self, view: object, version: object, deadline_s: float, flights: Sequence[Flight], trace: object = None
        ) -> None:
            self.at_work += 1
            await asyncio.sleep(0.01)
            for flight in flights:
                flight.land(ModelError("not finite"))

    flights, tier, view = Flights(), Failing([], 0), small_view()
    computing = computing_with(tier, flights)
    deadline_s = asyncio.get_running_loop().time() + 5
    answers = await asyncio.gather(*(ask(computing, view, ["a"], deadline_s) for _ in range(5)))
    assert {type(outcome.error) for (outcome,) in answers} == {ModelError}
    assert tier.at_work == 1


async def test_nobody_boards_a_flight_that_has_failed_while_its_group_still_flies() -> None:
    flights, gate = Flights(), asyncio.Event()

    async def fly(flown: Sequence[Flight]) -> None:
        flown[0].land(LiveUnavailable("lost"))
        await gate.wait()

    def wanted(*entities: bytes) -> list[Flight]:
        return [Flight(("v", entity), entity, entity, b"", None, None) for entity in entities]

    first = flights.board(wanted(b"a", b"b"), fly)
    await asyncio.sleep(0)
    second = flights.board(wanted(b"a"), fly)
    assert second.flights[0] is not first.flights[0]
    assert second.flights[0].result is None
    gate.set()
    await flights.close()
