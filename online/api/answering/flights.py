"""Single flight: identical misses in a worker share one execution, which belongs to none of them.

A flight runs in a task of its own group, so a caller that fails or goes away fails nobody else; when the last
caller of a group has gone, the group is cancelled, and with it the work at the replica. A flight that failed for a
reason that may be its first caller's (its deadline, its many rows) is flown again, by another of those who waited
for it and still have time: `computing.py` does that.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
            for wait in self.waits:
                wait.on_landed()


@dataclass(slots=True, eq=False)
class _Group:
    """Flights that were started together. `waited_for`: those that still have a caller."""

    flights: Sequence[Flight]
    task: "asyncio.Task[None]"
    waited_for: int = 0


@dataclass(slots=True, eq=False)
class Wait:
    """A caller's share in flights: `done` when all have landed, or the caller waits no longer."""

    flights: Sequence[Flight]
    left: int
    done: "asyncio.Future[None]" = field(init=False)

    def __post_init__(self) -> None:
        self.done = asyncio.get_running_loop().create_future()

    def on_landed(self) -> None:
        self.left -= 1
        if self.left <= 0 and not self.done.done():
            self.done.set_result(None)


Fly = Callable[[Sequence[Flight]], Coroutine[Any, Any, None]]


class Flights:
    """The flights in the air, by key."""

    def __init__(self) -> None:
        self._in_air: dict[tuple[str, bytes], Flight] = {}
        self._loop = asyncio.get_running_loop()
        self.shared = 0

    def board(self, wanted: Sequence[Flight], fly: Fly) -> Wait:
        """Joins the flights that are in the air already, and starts the others as one group.

        Args:
            wanted: new flights as this caller would fly them; `fly` must resolve `done` of each that it is given.
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
        if new:
            group = _Group(new, self._loop.create_task(self._fly(new, fly), name="flight"))
            for flight in new:
                flight.group = group
        wait = Wait(places, len(set(places)))
        for flight in set(places):
            self._enter(flight)
            if flight.result is None:
                flight.waits.append(wait)
            else:
                wait.on_landed()
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
                if group.waited_for == 0 and not group.task.done():
                    group.task.cancel()
                    self._land(group.flights)  # nobody may board what is being cancelled

    async def close(self) -> None:
        tasks = {flight.group.task for flight in self._in_air.values() if flight.group}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _enter(self, flight: Flight) -> None:
        if flight.callers == 0 and flight.group is not None:
            flight.group.waited_for += 1
        flight.callers += 1

    def _land(self, flights: Sequence[Flight]) -> None:
        for flight in flights:
            if self._in_air.get(flight.key) is flight:
                del self._in_air[flight.key]

    async def _fly(self, flights: Sequence[Flight], fly: Fly) -> None:
        try:
            await fly(flights)
        finally:
            self._land(flights)
            # Cancelled, or a mistake of ours: nobody may wait on a flight that will not land.
            for flight in flights:
                if not flight.is_landing:
                    flight.land(LiveUnavailable("the work on this was given up"))
