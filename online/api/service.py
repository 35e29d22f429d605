"""One worker's parts, put together: what starts them, what stops them, and in which order."""

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from types import FrameType
from typing import Self

from online import garbage
from online.api.answering.answerer import Answerer
from online.api.answering.cap import FreshCap
from online.api.answering.computing import Computing
from online.api.answering.features import FeatureSource
from online.api.answering.flights import Flights
from online.api.answering.flying import Flying
from online.api.answering.l1 import L1
from online.api.answering.renewals import Renewals
from online.api.answering.snapshot import SnapshotStore
from online.api.answering.spares import Spares
from online.api.answering.stored import Stored
from online.api.answering.write_back import WriteBack
from online.api.http.predictions import Predictions
from online.api.live.contract import Live
from online.api.live.tier import LiveTier
from online.api.lookup.clock import RedisClock
from online.api.lookup.invalidations import Invalidations
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import parse_address
from online.api.metrics.levels import disk_free, model_levels
from online.api.metrics.series import Metrics, ModelLevels
from online.api.metrics.slots import take_slot
from online.api.parity.part import Parity
from online.api.requestlog.buffer import RequestBuffer
from online.api.requestlog.samples import Samples
from online.api.requestlog.writer import LogWriter
from online.api.routes.announcements import Announcements
from online.api.routes.follower import RoutesFollower
from online.api.routes.manifests import ManifestStore
from online.api.routes.view import ModelView
from online.api.settings import ApiSettings
from online.api.tracing import AnswerTracer
from online.tracing.spans import SpanSender
from schemas.admission import Admission

log = logging.getLogger(__name__)

# Writes and polls are on a link of their own, whose replies nobody waits for with an answer in hand.
_BACKGROUND_BUDGET_S = 1.0
# A worker that starts beside others is given a moment to know what they know before it takes connections.
_WARM_UP_S = 2.0
_TICK_S = 0.5


class Service:
    """Use as `async with`, in the worker's event loop."""

    def __init__(self, settings: ApiSettings, parent: int) -> None:
        self.settings, self._parent = settings, parent
        # First of all: what makes a metric before it writes a file of its own for each worker that ever lived.
        self._slot = take_slot(settings.metrics_dir, settings.workers)
        url = settings.redis_url.get_secret_value()
        address, connect_s = parse_address(url), settings.redis_connect_timeout_ms / 1000
        self.link = RedisLink(address, settings.lookup_budget_ms / 1000, connect_s)
        self.background = RedisLink(address, _BACKGROUND_BUDGET_S, connect_s)
        self.clock = RedisClock(self.background)
        self.live = self._live_tier()
        self.snapshots = SnapshotStore(settings.state_dir / "snapshots", settings.snapshot_max_bytes)
        manifests = ManifestStore(settings.state_dir / "manifests", settings.allowed_bundle_urls)
        self.routes = RoutesFollower(
            settings.models, self.background, settings.state_dir, manifests, self._on_view
        )
        self.announcements = Announcements(url, settings.models, connect_s, self.routes.wake)
        self.features = FeatureSource(self.link, self.background, self.snapshots)
        self.write_back = WriteBack(
            self.background,
            settings.max_write_backs,
            Admission(settings.write_back_after, settings.write_back_remembered),
        )
        self.flights = Flights()
        self.l1 = L1(settings.l1_bytes)
        self.parity = Parity(settings, self.background, self.snapshots, self.live, self.routes.views, self.clock)
        samples = Samples(
            *(settings.log_sample, settings.log_never, self.features.from_snapshot),
            self.parity.checks.offer,
        )
        self.buffer = RequestBuffer(settings.models, settings.log_max_rows, samples)
        self.metrics = Metrics(self._state, self._model_levels, lambda: disk_free(settings.state_dir))
        self.log = LogWriter(
            self.buffer,
            settings.log_dir,
            settings.data_url,
            settings.log_rotate_s,
            settings.log_rotate_bytes,
            settings.log_max_bytes,
            self.metrics.fold,
        )
        self.invalidations = Invalidations(
            settings.models, self.background, self.clock, self.routes.views, settings.max_invalidations
        )
        self.cap = FreshCap(settings.no_cache_per_s)
        self.spans = SpanSender(settings.otlp_url, "hotset-api") if settings.otlp_url else None
        flying = Flying(self.features, self.live, self.write_back, self.clock, self.routes.views.get)
        self.renewals = Renewals(
            self.flights, flying, self.background, settings.renewal_lease_ms, settings.deadline_ms / 1000
        )
        computing = Computing(self.flights, flying, Spares(self.link), self.l1, self.clock, settings.input_cache)
        stored = Stored(
            *(self.link, self.l1, self.clock, self.invalidations, self.cap, self.renewals, settings.input_cache)
        )
        answerer = Answerer(stored, computing, flying, self.clock, settings.input_cache)
        self.predictions = Predictions(
            *(settings, self.routes.views, stored, answerer, self.l1, self.clock),
            *(self.buffer if settings.request_log else None, self.link),
            self.invalidations,
            samples,
            AnswerTracer(self.spans, settings.trace_share) if self.spans is not None else None,
        )
        self.is_draining = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.enter_context(self.log)
            if self.spans is not None:
                stack.enter_context(self.spans)
            for part in (self.link, self.background, self.clock, self.live):
                await stack.enter_async_context(part)
            stack.push_async_callback(self.snapshots.close)
            await stack.enter_async_context(self.routes)
            await stack.enter_async_context(self.announcements)
            await stack.enter_async_context(self.invalidations)
            stack.push_async_callback(self.flights.close)
            stack.push_async_callback(self.renewals.close)
            await stack.enter_async_context(self.parity)
            ticking = asyncio.create_task(self._tick(), name="tick")
            stack.callback(ticking.cancel)
            self._take_sigterm()
            await self._warm_up()
            garbage.settle()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    def _on_view(self, view: ModelView) -> None:
        self.snapshots.want(view.document.model, view.features)

    def _live_tier(self) -> Live:
        settings = self.settings
        if not settings.foreign_urls:
            return LiveTier(settings.nodes)
        # Here, because it loads an HTTP client, which our own tier does not need.
        from online.api.live.foreign.tier import ForeignTier

        return ForeignTier(
            settings.foreign_urls, settings.foreign_models, settings.foreign_concurrency, lambda: self.routes.views
        )

    async def _warm_up(self) -> None:
        """Until it knows routes, features and a replica, or that takes too long: then it serves what it has."""
        try:
            async with asyncio.timeout(_WARM_UP_S):
                await self.routes.polled.wait()
                await self.invalidations.loaded.wait()
                await self.snapshots.settled()
                while self.routes.views and not any(
                    self.live.warm_replicas(view.stable.digest) for view in self.routes.views.values()
                ):
                    self.live.changed.clear()
                    await self.live.changed.wait()
        except TimeoutError:
            log.info("serving before Redis or a replica was found")

    def _take_sigterm(self) -> None:
        """uvicorn's handler closes the sockets at once; readiness is to say no a moment before."""
        closing = signal.getsignal(signal.SIGTERM)
        loop = asyncio.get_running_loop()

        def close() -> None:
            if callable(closing):
                closing(signal.SIGTERM, None)

        def on_sigterm(number: int, frame: FrameType | None) -> None:
            if self.is_draining:
                return
            self.is_draining = True
            loop.call_soon_threadsafe(loop.call_later, self.settings.drain_delay_s, close)

        signal.signal(signal.SIGTERM, on_sigterm)

    async def _tick(self) -> None:
        """A worker whose parent was killed ends too: it would hold the port against the next start."""
        while True:
            await asyncio.sleep(_TICK_S)
            if os.getppid() != self._parent and not self.is_draining:
                log.warning("the parent process has gone: this worker ends")
                os.kill(os.getpid(), signal.SIGTERM)

    def _state(self) -> Mapping[tuple[str, str, str], float]:
        """What the parts count, for the metrics; read by the log's thread."""
        state: dict[tuple[str, str, str], float] = {}
        for part, link in (("redis_lookup", self.link), ("redis_background", self.background)):
            state |= {("total", part, name): value for name, value in asdict(link.counts).items()}
            state["level", part, "open"] = int(link.is_open)
            state["level", part, "nodes"] = len(link.nodes)
            state["level", part, "nodes_open"] = sum(node.is_open for node in link.nodes)
        state |= {("total", "features", name): value for name, value in asdict(self.features.counts).items()}
        for reason in ("behind", "down", "slow", "refused", "rare"):
            state["total", "write_back", f"dropped_{reason}"] = self.write_back.dropped[reason]
        state["total", "write_back", "written"] = self.write_back.written
        state["level", "write_back", "waiting"] = self.write_back.waiting
        state["total", "l1", "hits"] = self.l1.hits
        state["total", "l1", "misses"] = self.l1.misses
        state["level", "l1", "entries"], state["level", "l1", "bytes"] = self.l1.size()
        state["total", "flights", "shared"] = self.flights.shared
        for event in ("done", "failed", "refused", "dropped", "leased_elsewhere"):
            state["total", "renewals", event] = self.renewals.counts[event]
        state["total", "fresh_cap", "granted"] = self.cap.granted
        state["total", "fresh_cap", "refused"] = self.cap.refused
        state["level", "invalidations", "held"] = self.invalidations.held
        state["total", "live", "failovers"] = self.live.failovers
        for name, value in vars(self.log.counts).items():
            state["total", "request_log", name] = value
        state["total", "request_log", "dropped_in_memory"] = self.buffer.dropped
        state["level", "live", "warm_replicas"] = sum(
            self.live.warm_replicas(view.stable.digest) for view in self.routes.views.values()
        )
        state["level", "routes", "refused"] = len(self.routes.refusals)
        state["level", "api", "workers"] = 1
        if self.spans is not None:
            state["total", "traces", "sent"], state["total", "traces", "dropped"] = (
                self.spans.sent,
                self.spans.dropped,
            )
        return state

    def _model_levels(self) -> Mapping[str, ModelLevels]:
        return model_levels(self.routes.views, self.clock.now_ms, self.live.warm_replicas)
