"""Continuous parity: some of the hits are computed again, to see that live would still say what was precomputed.

A hit is offered after it was answered, waits in a short queue and is compared by one task, one at a time, with
the lowest priority of the live tier: what is behind is dropped and counted, and a tier without room is left alone.
Of a difference beyond the tolerance it is asked whether another bundle computed the generation, and whether the
features have changed since; the rules are `schemas.parity`'s. Written-back answers are no part of this: they are
live results.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import orjson

from online.api.answering.brought import transform
from online.api.answering.features import FeatureSource, Record
from online.api.answering.snapshot import SnapshotStore
from online.api.http.sink import RowSink
from online.api.live.contract import Live
from online.api.lookup.clock import RedisClock
from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get
from online.api.parity.metrics import ParityMetrics
from online.api.routes.view import ModelView, VersionView
from online.errors import DeadlineExceeded, InvalidFeatures, LiveUnavailable, Overloaded, ServingError
from online.wire_client.asking import Rows
from schemas.keys import generation_manifest_key
from schemas.outputs import calibrate, finite_rows
from schemas.parity import Kind, Measured, Skip, explained, measure
from schemas.wire import LOWEST_PRIORITY, Float32Array, Tensor

log = logging.getLogger(__name__)

# The log's thread offers those of a second at once.
MAX_WAITING = 256
# Room on the live tier is asked for again so much later.
_PAUSE_S = 1.0


class Hit(NamedTuple):
    """An answered hit: who asked for what, and the (W,) outputs that were stored."""

    request_id: str
    view: ModelView
    version: VersionView
    entity: bytes
    generation: str
    outputs: Sequence[float]


class Skipped(Exception):
    """The hit is not compared."""

    def __init__(self, why: Skip) -> None:
        super().__init__(why)
        self.why = why


class ParityChecks:
    """Use as `async with`; `offer` may be called at any time, from any thread.

    Args:
        share: of the hits; those of the request log's sample are offered, so that it is at most that sample's.
        link: to Redis, for what no answer waits for.
        views: what is live now, by model.
        sink: gets a row of `schemas.arrow.PARITY` for each hit.
        patience_s: how long a hit may take to be computed.
    """

    def __init__(
        self,
        share: float,
        link: RedisLink,
        snapshots: SnapshotStore,
        live: Live,
        views: Mapping[str, ModelView],
        clock: RedisClock,
        sink: RowSink,
        metrics: ParityMetrics,
        patience_s: float,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._limit = share * 0x1_0000_0000
        self._link, self._live, self._views, self._clock = link, live, views, clock
        self._features = FeatureSource(link, link, snapshots)
        self._sink, self._metrics = sink, metrics
        self._patience_s, self._pause_s = patience_s, pause_s
        self._waiting: deque[Hit] = deque()
        self._came = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._quiet_until_s = 0.0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._check_all(), name="parity")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    def offer(
        self,
        place: int,
        request_id: str,
        view: ModelView,
        version: VersionView,
        entity: bytes,
        generation: str,
        outputs: Sequence[float],
    ) -> None:
        """Takes a hit that was answered, where it is of the sample and there is room. `place`: by `place_of`."""
        if place < self._limit:
            hit = Hit(request_id, view, version, entity, generation, outputs)
            self._loop.call_soon_threadsafe(self._take, hit)

    def _take(self, hit: Hit) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._tell(hit, None, Skip.BEHIND)
            return
        self._waiting.append(hit)
        self._came.set()

    async def _check_all(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                await self._check(self._waiting.popleft())

    async def _check(self, hit: Hit) -> None:
        try:
            self._tell(hit, await self._compared(hit), None)
        except Skipped as skipped:
            self._tell(hit, None, skipped.why)
        except Exception:
            # The task outlives whatever one hit brings; an answer never depends on it.
            log.exception("a hit could not be compared", extra={"request_id": hit.request_id})
            self._tell(hit, None, Skip.FAILED)

    async def _compared(self, hit: Hit) -> Measured:
        version = hit.version
        current = self._views.get(version.model)
        if current is None or not current.is_routed(version):
            raise Skipped(Skip.NOT_ROUTED)
        deadline_s = self._loop.time() + self._patience_s
        self._need_room(version, deadline_s)
        record, tensors = await self._tensors(hit)
        live = await self._compute(version, tensors, deadline_s)
        found = measure(version.manifest, live, np.array([hit.outputs], dtype=np.float32))
        if found.kind is not Kind.NUMERIC_OVER:
            return found
        is_other_bundle = await self._is_of_another_bundle(hit)
        return found._replace(kind=explained(is_other_bundle, self._has_other_features(hit, record)))

    def _need_room(self, version: VersionView, deadline_s: float) -> None:
        """Raises Skipped where the live tier is gone, or is known to have no room."""
        if not self._live.warm_replicas(version.digest):
            raise Skipped(Skip.LIVE_UNAVAILABLE)
        is_full = self._live.refusal(version.digest, deadline_s, 1) is not None
        if is_full or self._loop.time() < self._quiet_until_s:
            raise Skipped(Skip.OVER_CAPACITY)

    async def _tensors(self, hit: Hit) -> tuple[Record, list[Tensor]]:
        """The entity's raw record as live has it, and as the model takes it."""
        (record,) = await self._features.records(hit.view, [hit.entity])
        if isinstance(record, ServingError):
            raise Skipped(Skip.NO_FEATURES)
        names = hit.version.transform.feature_names
        # Texts in a thread: nobody waits for this, and others would.
        (tensors,) = await transform(hit.version, [{name: record.get(name) for name in names}], most_at_once=0)
        if isinstance(tensors, InvalidFeatures):
            raise Skipped(Skip.NO_FEATURES)
        return record, tensors

    async def _compute(self, version: VersionView, tensors: list[Tensor], deadline_s: float) -> Float32Array:
        """(1, W) finite outputs as they would be stored."""
        try:
            rows = Rows(version.tag, tensors, deadline_s, LOWEST_PRIORITY)
            result = await self._live.run(version.digest, rows)
        except (Overloaded, DeadlineExceeded):
            self._quiet_until_s = self._loop.time() + self._pause_s
            raise Skipped(Skip.OVER_CAPACITY) from None
        except LiveUnavailable:
            raise Skipped(Skip.LIVE_UNAVAILABLE) from None
        except ServingError:
            raise Skipped(Skip.FAILED) from None
        outputs = calibrate(version.manifest.output, result.outputs)
        if not finite_rows(outputs)[0]:
            raise Skipped(Skip.FAILED)
        return outputs

    async def _is_of_another_bundle(self, hit: Hit) -> bool:
        """By the generation's manifest in Redis; one that does not say is taken to be of ours."""
        version = hit.version
        key = generation_manifest_key(version.model, version.name, hit.generation).encode()
        try:
            (reply,) = await self._link.ask([get(key)])
            digest = orjson.loads(reply).get("bundle_digest") if isinstance(reply, bytes) else None
        except (RedisDown, RedisSlow, orjson.JSONDecodeError, AttributeError):
            return False
        return digest is not None and digest != version.digest

    def _has_other_features(self, hit: Hit, record: Record) -> bool:
        """Whether the table is another than the generation's, or no longer what its night left."""
        table = hit.view.features
        if table is None or table.id != hit.generation:
            return True
        (of_night,) = self._features.from_snapshot(hit.view, [hit.entity])
        return of_night is not None and dict(of_night) != dict(record)

    def _tell(self, hit: Hit, found: Measured | None, skipped: Skip | None) -> None:
        model = hit.version.model
        self._metrics.count(model, found.kind if found else None, skipped)
        told = (found.kind.value, None, found.tolerances, found.output) if found else (None, skipped, None, None)
        named = (hit.request_id, hit.entity.decode(), hit.version.name, hit.generation)
        self._sink.add(model, (self._clock.now_us(), *named, *told))
