"""What a group of flights does: features, transform, model, calibration, write-back; a result for each row."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from online.api.answering.brought import transform
from online.api.answering.features import FeatureSource
from online.api.answering.flights import Flight, LiveResult
from online.api.answering.write_back import WriteBack
from online.api.live.tier import LiveTier
from online.api.lookup.clock import RedisClock
from online.api.routes.view import ModelView, VersionView
from online.errors import InvalidFeatures, ModelError, ServingError
from schemas import wire
from schemas.codec import LIVE_ORDINAL, pack_rows
from schemas.outputs import calibrate, finite_rows

log = logging.getLogger(__name__)


class Flying:
    """`current` gives the view that is live now, by model: results of versions no longer routed are not kept."""

    def __init__(
        self,
        features: FeatureSource,
        live: LiveTier,
        write_back: WriteBack,
        clock: RedisClock,
        current: Callable[[str], ModelView | None],
    ) -> None:
        self._features, self._live, self._write_back, self._clock = features, live, write_back, clock
        self._current = current

    async def fly(
        self, view: ModelView, version: VersionView, deadline_s: float, flights: Sequence[Flight]
    ) -> None:
        """Lands every flight, with a result or an error."""
        began_ns, computed_at_ms = time.perf_counter_ns(), self._clock.now_ms()
        await self._gather_features(view, version, [flight for flight in flights if flight.tensors is None])
        features_us = (time.perf_counter_ns() - began_ns) // 1000
        ready = [flight for flight in flights if not flight.done.done()]
        size = version.manifest.max_batch_rows
        chunks = [ready[at : at + size] for at in range(0, len(ready), size)]
        runs = [self._run(version, chunk, deadline_s, computed_at_ms, features_us) for chunk in chunks]
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
                flight.done.set_result(record)
            else:
                # A table serves all versions: it may hold features that this one does not take.
                known.append((flight, {name: record.get(name) for name in names}))
        rows = transform(version, [record for _, record in known])
        for (flight, record), row in zip(known, rows, strict=True):
            flight.record = record
            if isinstance(row, InvalidFeatures):
                detail = f"the stored features of this entity do not fit the model: {row.detail}"
                flight.done.set_result(InvalidFeatures(detail, errors=row.context["errors"]))
            else:
                flight.tensors = row

    async def _run(
        self,
        version: VersionView,
        flights: Sequence[Flight],
        deadline_s: float,
        computed_at_ms: int,
        features_us: int,
    ) -> None:
        rows = [flight.tensors or [] for flight in flights]
        tensors = rows[0] if len(rows) == 1 else [np.concatenate(parts) for parts in zip(*rows, strict=True)]
        try:
            result = await self._live.run(version.digest, version.tag, tensors, deadline_s)
            outputs = calibrate(version.manifest.output, _checked(result, len(flights)))
        except (ServingError, ValueError) as error:
            if isinstance(error, ValueError):
                log.error("the model's outputs do not fit its manifest", extra={"reason": str(error)})
            for flight in flights:
                flight.done.set_result(
                    error if isinstance(error, ServingError) else ModelError("the model's outputs do not fit")
                )
            return
        finite = finite_rows(outputs)
        self._keep(
            version, [f for f, ok in zip(flights, finite, strict=True) if ok], computed_at_ms, outputs[finite]
        )
        for row, flight in enumerate(flights):
            if not finite[row]:
                flight.done.set_result(ModelError("an output of the model is not a finite number"))
                continue
            flight.done.set_result(
                LiveResult(
                    outputs[row],
                    computed_at_ms,
                    flight.record or {},
                    features_us,
                    result.queue_us,
                    result.batch_us,
                    result.execute_us,
                    result.batch_rows,
                )
            )

    def _keep(
        self, version: VersionView, flights: Sequence[Flight], computed_at_ms: int, outputs: wire.Float32Array
    ) -> None:
        current = self._current(version.model)
        if not flights or current is None or not current.is_routed(version):
            return
        packed = pack_rows([flight.subject for flight in flights], LIVE_ORDINAL, computed_at_ms, outputs)
        for flight, value in zip(flights, packed, strict=True):
            self._write_back.offer(flight.write_to, value, version.live_ttl_ms)


def _checked(result: wire.Result, rows: int) -> wire.Float32Array:
    if len(result.outputs) != rows:
        raise ValueError(f"{len(result.outputs)} rows of outputs for {rows}")
    return result.outputs
