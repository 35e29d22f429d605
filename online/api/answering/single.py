"""One miss that brought its features, on its way to an answer without a task.

A task, its futures and the turns of the event loop between them cost more than all else that is done for it here.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from online.api.answering.asking import Asking
from online.api.answering.flights import Flight, Flights, LiveResult, Start, Wait
from online.api.answering.miss import Miss
from online.api.answering.outcome import Outcome
from online.api.answering.stored import make_answer
from online.errors import DeadlineExceeded, FeaturesUnavailable, LiveUnavailable, Overloaded, ServingError

# What may be the fault of whose flight it was: their deadline, how many rows they brought, their moment.
OF_THE_LEADER = (LiveUnavailable, Overloaded, DeadlineExceeded, FeaturesUnavailable)

Settle = Callable[[Miss, LiveResult | ServingError], None]


class Computed(Protocol):
    """Who waits for a miss is told once, unless the client has gone, and does not raise."""

    def on_answer(self, outcome: Outcome) -> None: ...
    def on_error(self, error: Exception) -> None: ...
    def on_failed_leader(self, miss: Miss) -> None:
        """It was on another's flight, which failed, and there is time for one of its own."""


class Single:
    """Waits for one flight, until the deadline or while the client is there. Used once.

    Args:
        settle: gives the miss's outcome what became of the flight.
    """

    __slots__ = (
        "_asking",
        "_computed",
        "_flights",
        "_has_landed",
        "_loop",
        "_miss",
        "_own",
        "_settle",
        "_timer",
        "_wait",
    )

    def __init__(self, asking: Asking, miss: Miss, computed: Computed, settle: Settle) -> None:
        self._asking, self._miss, self._computed, self._settle = asking, miss, computed, settle
        self._loop = asyncio.get_running_loop()
        self._wait: Wait | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_landed = False

    def board(self, flights: Flights, own: Flight, start: Start) -> None:
        """`own`: what it flies, where nobody else does."""
        asking = self._asking
        if asking.connection.is_lost:
            return
        self._flights, self._own = flights, own
        asking.connection.on_lost.add(self._leave)
        self._wait = flights.join([own], start, self._on_landed)
        if self._has_landed:
            self._end()
        elif self._wait.flights[0] is not own:
            # Its own has its deadline, and lands by then.
            self._timer = self._loop.call_at(asking.deadline_s, self._on_deadline)

    def _on_landed(self) -> None:
        self._has_landed = True
        if self._wait is not None:
            self._end()

    def _end(self) -> None:
        assert self._wait is not None
        self._leave()
        (flight,) = self._wait.flights
        result = flight.result
        assert result is not None
        has_time = self._loop.time() < self._asking.deadline_s
        if flight is not self._own and has_time and isinstance(result, OF_THE_LEADER):
            self._computed.on_failed_leader(self._miss)
        else:
            self._tell(result)

    def _on_deadline(self) -> None:
        self._leave()
        self._tell(DeadlineExceeded("no answer within the deadline"))

    def _leave(self) -> None:
        assert self._wait is not None
        if self._timer is not None:
            self._timer.cancel()
        self._asking.connection.on_lost.discard(self._leave)
        self._flights.leave(self._wait)

    def _tell(self, result: LiveResult | ServingError) -> None:
        try:
            self._settle(self._miss, result)
            make_answer(self._miss.outcome)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs this request, not those that land with it
            self._computed.on_error(error)
        else:
            self._computed.on_answer(self._miss.outcome)
