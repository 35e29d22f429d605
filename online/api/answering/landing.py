"""What the model has answered: calibrated, checked, kept and handed to its flights.

A worker answers a batch in one write, so tens of answers arrive in one turn of the event loop. They are worked on
together: each step then costs numpy's overhead once, and not for each answer while the others wait.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from online.api.answering.flights import Flight, LiveResult
from online.api.answering.write_back import WriteBack
from online.api.routes.view import ModelView, VersionView
from online.errors import ModelError
from schemas import wire
from schemas.codec import LIVE_ORDINAL, pack_rows
from schemas.outputs import calibrate, finite_rows

log = logging.getLogger(__name__)


class Arrival(NamedTuple):
    """The model's answer to some flights, a row each."""

    version: VersionView
    flights: Sequence[Flight]
    result: wire.Result
    computed_at_ms: int
    features_us: int


class Landing:
    """`current` gives the view that is live now, by model: results of versions no longer routed are not kept."""

    def __init__(self, write_back: WriteBack, current: Callable[[str], ModelView | None]) -> None:
        self._write_back, self._current = write_back, current
        self._loop = asyncio.get_running_loop()
        self._arrived: dict[VersionView, list[Arrival]] = {}

    def add(self, arrival: Arrival) -> None:
        """Its flights land before the next turn of the event loop ends."""
        if len(arrival.result.outputs) != len(arrival.flights):
            log.error(
                "the model's outputs do not fit",
                extra={"rows": len(arrival.flights), "outputs": len(arrival.result.outputs)},
            )
            _fail(arrival.flights)
            return
        for flight in arrival.flights:
            flight.is_landing = True
        if not self._arrived:
            self._loop.call_soon(self._land)
        self._arrived.setdefault(arrival.version, []).append(arrival)

    def _land(self) -> None:
        arrived, self._arrived = self._arrived, {}
        for version, arrivals in arrived.items():
            try:
                self._land_version(version, arrivals)
            except Exception:
                # Whatever it is: nobody may wait for a flight that will not land.
                log.exception("the model's outputs do not fit its manifest")
                for arrival in arrivals:
                    _fail(arrival.flights)

    def _land_version(self, version: VersionView, arrivals: Sequence[Arrival]) -> None:
        raw = [arrival.result.outputs for arrival in arrivals]
        outputs = calibrate(version.manifest.output, raw[0] if len(raw) == 1 else np.concatenate(raw))
        finite, rows = finite_rows(outputs).tolist(), outputs.tolist()
        self._keep(version, arrivals, outputs, finite)
        row = 0
        for _, flights, result, computed_at_ms, features_us in arrivals:
            times = (result.queue_us, result.batch_us, result.execute_us, result.batch_rows)
            for flight in flights:
                if finite[row]:
                    record = flight.record or {}
                    flight.land(LiveResult(rows[row], computed_at_ms, record, features_us, *times))
                else:
                    flight.land(ModelError("an output of the model is not a finite number"))
                row += 1

    def _keep(
        self,
        version: VersionView,
        arrivals: Sequence[Arrival],
        outputs: wire.Float32Array,
        finite: Sequence[bool],
    ) -> None:
        current = self._current(version.model)
        if current is None or not current.is_routed(version):
            return
        first = 0
        for arrival in arrivals:
            rows = range(first, first + len(arrival.flights))
            first += len(arrival.flights)
            kept = [
                (row, flight)
                for row, flight in zip(rows, arrival.flights, strict=True)
                if finite[row] and flight.write_to
            ]
            if not kept:
                continue
            subjects = [flight.subject for _, flight in kept]
            packed = pack_rows(subjects, LIVE_ORDINAL, arrival.computed_at_ms, outputs[[row for row, _ in kept]])
            for (_, flight), value in zip(kept, packed, strict=True):
                self._write_back.offer(flight.write_to, value, version.live_ttl_ms)


def _fail(flights: Sequence[Flight]) -> None:
    for flight in flights:
        flight.land(ModelError("the model's outputs do not fit"))
