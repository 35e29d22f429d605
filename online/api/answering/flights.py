"""Single flight: identical misses in a worker share one execution, which belongs to none of them.

A flight belongs to its own group, so a caller that fails or goes away fails nobody else; when the last
caller of a group has gone, the group is cancelled, and with it the work at the replica. A flight that failed for a
reason that may be its first caller's (its deadline, its many rows) is flown again, by another of those who waited
for it and still have time: `computing.py` does that.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

from online.errors import LiveUnavailable, ServingError
from schemas.wire import Tensor


class LiveResult(NamedTuple):
    """One row from the model: K finite outputs after calibration, and where its time went."""

    outputs: Sequence[float]
    computed_at_ms: int
    record: Mapping[str, object]
    features_us: int
    queue_us: int
    batch_us: int
    execute_us: int
    batch_rows: int


@dataclass(slots=True, eq=False)
class Flight:
    """One row on its way to the model.

    Attributes:
        key: identical misses have the same.
        entity: whose features are looked up, where `record` brings none.
        write_to: the key under which the result is kept, empty for not at all; `subject` is whose it then is.
        tensors: the record's row of each input, in wire order, where it was brought.
        result: None until it has landed.
        is_landing: the model has answered, and this will land within the same turn of the event loop.
    """

    key: tuple[str, bytes]
    entity: bytes
    subject: bytes
    write_to: bytes
    record: Mapping[str, object] | None
    tensors: list[Tensor] | None
    result: LiveResult | ServingError | None = None
    is_landing: bool = False
    callers: int = 0
    group: "_Group | None" = None
    waits: "list[Wait]" = field(default_factory=list)

    def land(self, result: LiveResult | ServingError) -> None:
        """The first result counts; all who wait are told at once, not in a later turn of the event loop."""
        if self.result is None:
            self.result = result
            waits, self.waits = self.waits, []
            for wait in waits:
                wait.on_landed()


class Work(Protocol):
    """What flies a group."""

    def cancel(self) -> object: ...


@dataclass(slots=True, eq=False)
class _Group:
    """Flights that were started together. `waited_for`: those that still have a caller."""

    flights: Sequence[Flight]
    work: Work | None = None
    waited_for: int = 0
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class Wait:
    """A caller's share in flights: `tell` is called once, when all have landed."""

    flights: Sequence[Flight]
    left: int
    tell: Callable[[], None]

    def on_landed(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.tell()


class Boarded(NamedTuple):
    """`done` when all have landed; whoever waits no longer may end it too."""

    wait: Wait
    done: "asyncio.Future[None]"

    @property
    def flights(self) -> Sequence[Flight]:
        return self.wait.flights


Fly = Callable[[Sequence[Flight]], Coroutine[Any, Any, None]]
# As `Fly`, but it only begins, without a task. The second argument is called once nobody is to join any more.
Start = Callable[[Sequence[Flight], Callable[[], None]], Work]


class Flights:
    """The flights in the air, by key."""

    def __init__(self) -> None:
        self._in_air: dict[tuple[str, bytes], Flight] = {}
        self._loop = asyncio.get_running_loop()
        self.shared = 0

    def board(self, wanted: Sequence[Flight], fly: Fly) -> Boarded:
        """As `join`, for a coroutine: new flights are a task's.

        Args:
            fly: must land each flight that it is given.
        """
        done: asyncio.Future[None] = self._loop.create_future()

        def start(flights: Sequence[Flight], ended: Callable[[], None]) -> Work:
            return self._loop.create_task(_fly(flights, fly, ended), name="flight")

        return Boarded(self.join(wanted, start, partial(_set, done)), done)

    def join(self, wanted: Sequence[Flight], start: Start, tell: Callable[[], None]) -> Wait:
        """Joins the flights that are in the air already, and starts the others as one group.

        Args:
            wanted: new flights as this caller would fly them.
            tell: called once when all have landed, also before this returns.
        """
        places, new = [], []
        for flight in wanted:
            flying = self._in_air.get(flight.key)
            # One that has failed while others of its group still fly: nobody else is to fail with it.
            if flying is None or isinstance(flying.result, ServingError):
                self._in_air[flight.key] = flying = flight
                new.append(flight)
            else:
                self.shared += 1
            places.append(flying)
        group = _Group(new)
        for flight in new:
            flight.group = group
        wait = Wait(places, len(set(places)), tell)
        for flight in set(places):
            self._enter(flight)
            if flight.result is None:
                flight.waits.append(wait)
            else:
                wait.on_landed()
        if new:
            group.work = start(new, partial(self._end, group))
        return wait

    def leave(self, wait: Wait) -> None:
        """The caller waits no longer. A group without callers is cancelled."""
        for flight in set(wait.flights):
            if wait in flight.waits:
                flight.waits.remove(wait)
            flight.callers -= 1
            group = flight.group
            if flight.callers == 0 and group is not None:
                group.waited_for -= 1
                if group.waited_for == 0 and not group.has_ended and group.work is not None:
                    group.work.cancel()
                    self._end(group)  # nobody may board what is being cancelled

    async def close(self) -> None:
        works = {id(flight.group): flight.group.work for flight in self._in_air.values() if flight.group}
        for work in works.values():
            if work is not None:
                work.cancel()
        if tasks := [work for work in works.values() if isinstance(work, asyncio.Task)]:
            await asyncio.wait(tasks)

    def _enter(self, flight: Flight) -> None:
        if flight.callers == 0 and flight.group is not None:
            flight.group.waited_for += 1
        flight.callers += 1

    def _end(self, group: _Group) -> None:
        group.has_ended = True
        for flight in group.flights:
            if self._in_air.get(flight.key) is flight:
                del self._in_air[flight.key]


async def _fly(flights: Sequence[Flight], fly: Fly, ended: Callable[[], None]) -> None:
    try:
        await fly(flights)
    finally:
        ended()
        # Cancelled, or a mistake of ours: nobody may wait on a flight that will not land.
        for flight in flights:
            if not flight.is_landing:
                flight.land(LiveUnavailable("the work on this was given up"))


def _set(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
