"""Single flight: what is shared, who fails with whom, and when the work is given up."""

import asyncio
from collections.abc import Sequence

import numpy as np

from online.api.answering.flights import Flight, Flights, LiveResult
from online.errors import LiveUnavailable

RESULT = LiveResult(np.ones(1, np.float32), 1, {}, 0, 0, 0, 0, 1)


class Tier:
    """Lands flights when `gate` is opened; counts what it was given and what was cancelled."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.flown: list[bytes] = []
        self.cancelled = 0

    async def fly(self, flights: Sequence[Flight]) -> None:
        self.flown += [flight.entity for flight in flights]
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        for flight in flights:
            flight.land(RESULT)

    async def crash(self, flights: Sequence[Flight]) -> None:
        self.flown += [flight.entity for flight in flights]
        await self.gate.wait()


def wanted(*entities: bytes) -> list[Flight]:
    return [Flight(("v", e), e, e, b"", None, None) for e in entities]


async def test_identical_misses_fly_once_also_within_one_call() -> None:
    flights, tier = Flights(), Tier()
    first = flights.board(wanted(b"a", b"b", b"a"), tier.fly)
    second = flights.board(wanted(b"b", b"c"), tier.fly)
    await asyncio.sleep(0)
    tier.gate.set()
    await asyncio.gather(first.done, second.done)
    assert tier.flown == [b"a", b"b", b"c"]
    assert [flight.result for flight in first.flights] == [RESULT] * 3
    assert flights.shared == 2


async def test_a_caller_that_leaves_fails_nobody() -> None:
    flights, tier = Flights(), Tier()
    leader = flights.board(wanted(b"a"), tier.fly)
    follower = flights.board(wanted(b"a"), tier.fly)
    await asyncio.sleep(0)
    flights.leave(leader.wait)
    tier.gate.set()
    await follower.done
    assert follower.flights[0].result is RESULT
    assert tier.cancelled == 0


async def test_work_that_nobody_waits_for_is_cancelled_and_flown_anew_for_the_next() -> None:
    flights, tier = Flights(), Tier()
    first = flights.board(wanted(b"a", b"b"), tier.fly)
    await asyncio.sleep(0)
    flights.leave(first.wait)
    late = flights.board(wanted(b"a"), tier.fly)  # before the cancellation has run
    await asyncio.sleep(0)
    tier.gate.set()
    await late.done
    assert tier.cancelled == 1
    assert late.flights[0].result is RESULT
    assert tier.flown == [b"a", b"b", b"a"]


async def test_a_group_goes_on_while_one_of_its_flights_has_a_caller() -> None:
    flights, tier = Flights(), Tier()
    batch = flights.board(wanted(b"a", b"b"), tier.fly)
    other = flights.board(wanted(b"b"), tier.fly)
    await asyncio.sleep(0)
    flights.leave(batch.wait)
    tier.gate.set()
    await other.done
    assert tier.cancelled == 0


async def test_a_flight_always_lands() -> None:
    flights, tier = Flights(), Tier()
    lost = flights.board(wanted(b"a"), tier.crash)
    await asyncio.sleep(0)
    tier.gate.set()
    await lost.done
    assert isinstance(lost.flights[0].result, LiveUnavailable)
    open_ = flights.board(wanted(b"b"), Tier().fly)
    await asyncio.sleep(0)
    await flights.close()
    assert isinstance(open_.flights[0].result, LiveUnavailable)
