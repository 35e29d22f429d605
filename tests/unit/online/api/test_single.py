"""A miss on its way without a task: told once, of its own flight or another's, by the deadline, or not at all."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from online.api.answering.asking import Asking
from online.api.answering.flights import Flight, Flights, LiveResult
from online.api.answering.miss import Miss
from online.api.answering.outcome import Item, Outcome
from online.api.answering.single import Single
from online.errors import DeadlineExceeded, ModelError, Overloaded, ServingError
from schemas.http import MissReason, Source
from tests.support.small_view import small_view

RESULT = LiveResult([0.5, 0.5], 1, {}, 0, 0, 0, 0, 1)


class Connected:
    def __init__(self) -> None:
        self.on_lost: set[Callable[[], None]] = set()
        self.is_lost = False

    def lose(self) -> None:
        self.is_lost = True
        for call in tuple(self.on_lost):
            call()


class Tier:
    """Lands what it was given when the test says so, or at once where `now` is set; counts what was cancelled."""

    def __init__(self, now: LiveResult | ServingError | None = None) -> None:
        self.now = now
        self.at_work: list[tuple[Flight, Callable[[], None]]] = []
        self.flown = self.cancelled = 0

    def start(self, flights: Sequence[Flight], ended: Callable[[], None]) -> "Tier":
        (flight,) = flights
        self.flown += 1
        self.at_work.append((flight, ended))
        if self.now is not None:
            self.land(self.now)
        return self

    def land(self, result: LiveResult | ServingError) -> None:
        flight, ended = self.at_work.pop()
        ended()
        flight.land(result)

    def cancel(self) -> None:
        self.cancelled += 1


class Caller:
    """Asks for the same features as every other; `told` is what it was told, in order."""

    def __init__(self, flights: Flights, tier: Tier, patience_s: float = 10.0) -> None:
        view, self.connection, self.told = small_view(), Connected(), list[Any]()
        self.ended = asyncio.Event()
        deadline_s = asyncio.get_running_loop().time() + patience_s
        outcome = Outcome("e", view.stable)
        self.miss = Miss(Item("e", b"e", {}), outcome, view.stable, MissReason.CALLER_FEATURES, digest=b"d")
        own = Flight(("v", b"d"), b"e", b"d", b"", {}, [np.ones((1, 1), np.float32)])
        asking = Asking(view, deadline_s, self.connection)
        Single(asking, self.miss, self, settle).board(flights, own, tier.start)

    def on_answer(self, outcome: Outcome) -> None:
        self.told.append(outcome.error or outcome.source)
        self.ended.set()

    def on_error(self, error: Exception) -> None:
        self.told.append(error)

    def on_failed_leader(self, miss: Miss) -> None:
        self.told.append(miss)


def settle(miss: Miss, result: LiveResult | ServingError) -> None:
    if isinstance(result, ServingError):
        miss.outcome.error = result
    else:
        miss.outcome.source, miss.outcome.outputs = Source.LIVE, result.outputs


async def test_identical_misses_share_a_flight_and_each_is_told_once() -> None:
    flights, tier = Flights(), Tier()
    callers = [Caller(flights, tier) for _ in range(3)]
    assert [caller.told for caller in callers] == [[], [], []]
    tier.land(RESULT)
    assert (tier.flown, flights.shared) == (1, 2)
    assert [caller.told for caller in callers] == [[Source.LIVE]] * 3
    assert callers[0].connection.on_lost == set()
    Caller(flights, tier)
    assert tier.flown == 2  # nobody joins what has landed


@pytest.mark.parametrize("said", [RESULT, Overloaded("busy"), ModelError("broken")])
async def test_what_is_known_at_once_is_told_at_once(said: LiveResult | ServingError) -> None:
    flights = Flights()
    caller = Caller(flights, Tier(said))
    assert caller.told == [Source.LIVE if said is RESULT else said]
    assert Caller(flights, Tier(RESULT)).told == [Source.LIVE]


async def test_work_goes_on_while_one_waits_for_it_and_is_cancelled_after_the_last() -> None:
    flights, tier = Flights(), Tier()
    callers = [Caller(flights, tier) for _ in range(2)]
    callers[0].connection.lose()
    assert tier.cancelled == 0
    callers[1].connection.lose()
    assert tier.cancelled == 1
    tier.land(RESULT)  # crossed the cancel
    assert [caller.told for caller in callers] == [[], []]
    assert Caller(flights, other := Tier(RESULT)).told == [Source.LIVE]
    assert other.flown == 1


async def test_who_has_gone_before_flies_nothing() -> None:
    flights, tier = Flights(), Tier()
    gone = Connected()
    gone.is_lost = True
    asking = Asking(small_view(), asyncio.get_running_loop().time() + 10, gone)
    miss = Miss(Item("e", b"e", {}), Outcome("e"), small_view().stable, MissReason.CALLER_FEATURES)
    own = Flight(("v", b"d"), b"e", b"d", b"", {}, None)
    never = partial(pytest.fail, "told")
    Single(asking, miss, never, settle).board(flights, own, tier.start)  # type: ignore[arg-type]
    assert tier.flown == 0


async def test_a_leaders_failure_is_not_who_joined_its() -> None:
    flights, tier = Flights(), Tier()
    leader, follower = Caller(flights, tier), Caller(flights, tier)
    busy = Overloaded("too many rows of the leader's")
    tier.land(busy)
    assert leader.told == [busy]
    assert follower.told == [follower.miss]
    leader, follower = Caller(flights, tier), Caller(flights, tier)
    tier.land(broken := ModelError("for anybody"))
    assert (leader.told, follower.told) == ([broken], [broken])


async def test_who_joined_keeps_a_deadline_of_its_own() -> None:
    flights, tier = Flights(), Tier()
    leader, follower = Caller(flights, tier), Caller(flights, tier, patience_s=0.02)
    await asyncio.wait_for(follower.ended.wait(), 5)
    (error,) = follower.told
    assert isinstance(error, DeadlineExceeded)
    tier.land(RESULT)
    assert (leader.told, len(follower.told), tier.cancelled) == ([Source.LIVE], 1, 0)


async def test_a_mistake_of_ours_costs_one_request() -> None:
    flights, tier = Flights(), Tier()
    first, second = Caller(flights, tier), Caller(flights, tier)
    first.miss.outcome = None  # type: ignore[assignment]
    tier.land(RESULT)
    assert isinstance(first.told[0], AttributeError)
    assert second.told == [Source.LIVE]
