"""What a group of flights does: features, transform, model; what the model answers goes to `landing.py`."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from online.api.answering.brought import transform
from online.api.answering.features import FeatureSource
from online.api.answering.flights import Flight
from online.api.answering.landing import Arrival, Landing
from online.api.answering.write_back import WriteBack
from online.api.live.contract import Live, Sending
from online.api.lookup.clock import RedisClock
from online.api.routes.view import ModelView, VersionView
from online.errors import InvalidFeatures, Overloaded, ServingError
from online.tracing.context import TraceContext
from online.wire_client.asking import Rows
from schemas import wire

# A frame of many long texts could be over what a worker takes; in several it is under way while others compute.
_MAX_REQUEST_BYTES = wire.MAX_FRAME_BYTES // 4


class Flying:
    """`current` gives the view that is live now, by model: results of versions no longer routed are not kept."""

    def __init__(
        self,
        features: FeatureSource,
        live: Live,
        write_back: WriteBack,
        clock: RedisClock,
        current: Callable[[str], ModelView | None],
    ) -> None:
        self._features, self._live, self._clock = features, live, clock
        self._landing = Landing(write_back, current)

    def refusal(self, version: VersionView, deadline_s: float, rows: int) -> Overloaded | None:
        """The live tier's answer, where it is known without asking."""
        return self._live.refusal(version.digest, deadline_s, min(rows, version.manifest.max_batch_rows))

    def start(
        self,
        version: VersionView,
        deadline_s: float,
        trace: TraceContext | None,
        flights: Sequence[Flight],
        ended: Callable[[], None],
    ) -> Sending:
        """As `fly`, for one flight that brings its tensors: without a task. `ended`: as in `flights.Start`."""
        (flight,) = flights
        answered = _Answered(self._landing, version, flight, self._clock.now_ms(), ended)
        rows = Rows(version.tag, flight.tensors or [], deadline_s, trace=trace)
        return self._live.send(answered, version.digest, rows)

    async def fly(
        self,
        view: ModelView,
        version: VersionView,
        deadline_s: float,
        flights: Sequence[Flight],
        trace: TraceContext | None = None,
    ) -> None:
        """Lands every flight, with a result or an error. `trace` is of the request that started them."""
        began_ns, computed_at_ms = time.perf_counter_ns(), self._clock.now_ms()
        await self._gather_features(view, version, [flight for flight in flights if flight.tensors is None])
        features_us = (time.perf_counter_ns() - began_ns) // 1000
        ready = [flight for flight in flights if flight.result is None]
        size = version.manifest.max_batch_rows
        groups = by_shape(ready) if version.transform.has_text else [ready]
        chunks = [chunk for group in groups for chunk in _chunks(group, size)]
        runs = [self._run(version, chunk, deadline_s, computed_at_ms, features_us, trace) for chunk in chunks]
        if len(runs) == 1:
            await runs[0]
        else:
            await asyncio.gather(*runs)

    async def _gather_features(self, view: ModelView, version: VersionView, flights: Sequence[Flight]) -> None:
        if not flights:
            return
        records = await self._features.records(view, [flight.entity for flight in flights])
        known: list[tuple[Flight, Mapping[str, object]]] = []
        names = version.transform.feature_names
        for flight, record in zip(flights, records, strict=True):
            if isinstance(record, ServingError):
                flight.land(record)
            else:
                # A table serves all versions: it may hold features that this one does not take.
                known.append((flight, {name: record.get(name) for name in names}))
        rows = await transform(version, [record for _, record in known])
        for (flight, record), row in zip(known, rows, strict=True):
            flight.record = record
            if isinstance(row, InvalidFeatures):
                detail = f"the stored features of this entity do not fit the model: {row.detail}"
                flight.land(InvalidFeatures(detail, errors=row.context["errors"]))
            else:
                flight.tensors = row

    async def _run(
        self,
        version: VersionView,
        flights: Sequence[Flight],
        deadline_s: float,
        computed_at_ms: int,
        features_us: int,
        trace: TraceContext | None,
    ) -> None:
        rows = [flight.tensors or [] for flight in flights]
        tensors = rows[0] if len(rows) == 1 else [np.concatenate(parts) for parts in zip(*rows, strict=True)]
        try:
            result = await self._live.run(version.digest, Rows(version.tag, tensors, deadline_s, trace=trace))
        except ServingError as error:
            for flight in flights:
                flight.land(error)
            return
        self._landing.add(Arrival(version, flights, result, computed_at_ms, features_us))


class _Answered:
    """Lands one flight with what the live tier says."""

    __slots__ = ("_computed_at_ms", "_ended", "_flight", "_landing", "_version")

    def __init__(
        self,
        landing: Landing,
        version: VersionView,
        flight: Flight,
        computed_at_ms: int,
        ended: Callable[[], None],
    ) -> None:
        self._landing, self._version, self._flight = landing, version, flight
        self._computed_at_ms, self._ended = computed_at_ms, ended

    def on_result(self, result: wire.Result) -> None:
        self._ended()
        self._landing.add(Arrival(self._version, (self._flight,), result, self._computed_at_ms, 0))

    def on_failure(self, error: ServingError) -> None:
        self._ended()
        self._flight.land(error)


def by_shape(flights: Iterable[Flight]) -> Iterable[Sequence[Flight]]:
    """What may go in one request: text of one padded length, so that a long row stretches no short one."""
    groups: dict[Hashable, list[Flight]] = {}
    for flight in flights:
        groups.setdefault(tuple([tensor.shape for tensor in flight.tensors or ()]), []).append(flight)
    return groups.values()


def _chunks(flights: Sequence[Flight], max_rows: int) -> Iterator[Sequence[Flight]]:
    """Of one shape."""
    if len(flights) == 1:
        yield flights
    elif flights:
        row_bytes = sum(tensor.nbytes for tensor in flights[0].tensors or ())
        size = max(1, min(max_rows, _MAX_REQUEST_BYTES // max(1, row_bytes)))
        yield from (flights[at : at + size] for at in range(0, len(flights), size))
