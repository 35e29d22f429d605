"""The threads that run the model: one that loads it, at low priority, then one for each instance.

Loading takes seconds of a core; it must not slow the version in service, so its thread yields to all others. The
device threads are started from the event loop, whose priority they have; so are processes of instances. Where this
process needs torch, the loading thread imports it, so that the loop answers the node meanwhile. Events are called
in the event loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from online.inference.report import EXIT_DRAINED, EXIT_REFUSED
from online.inference.worker import loading
from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batcher import Batcher
from online.inference.worker.execution import Outcome, RunBatch
from online.inference.worker.options import WorkerOptions
from online.inference.worker.priority import yield_to_others
from online.inference.worker.remote_instance import RemoteInstance
from online.inference.worker.warm import Warm
from schemas.bundle import Bundle, BundleError

log = logging.getLogger(__name__)

EXIT_CRASHED = 1


class DeviceEvents(Protocol):
    def on_bundle(self, bundle: Bundle) -> None: ...
    def on_warm(self, warm: Warm) -> None: ...
    def on_outcome(self, outcome: Outcome) -> None: ...
    def on_end(self, status: int, reason: str) -> None: ...


class Device:
    """The threads of one worker. Daemons: one that hangs in a kernel must not keep the process."""

    def __init__(self, options: WorkerOptions, events: DeviceEvents) -> None:
        self._options, self._events = options, events
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """To be called in the event loop."""
        self._start(self._load, "load")

    def _load(self) -> None:
        yield_to_others()
        warm, instances = self._warm_up()
        self._loop.call_soon_threadsafe(self._on_warm, warm, instances)

    def _on_warm(self, warm: Warm, instances: Sequence[RunBatch]) -> None:
        for number, run_batch in enumerate(instances):
            self._start(partial(self._serve, warm, run_batch), f"device-{number}")
        self._events.on_warm(warm)

    def _serve(self, warm: Warm, run_batch: RunBatch) -> None:
        warm.batcher.run(run_batch)
        self._loop.call_soon_threadsafe(self._events.on_end, EXIT_DRAINED, "")

    def _start(self, work: Callable[[], None], name: str) -> None:
        threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True).start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BundleError as error:
            status, reason = EXIT_REFUSED, str(error)
        except BaseException as error:
            log.error("%s died", threading.current_thread().name, exc_info=True)
            status, reason = EXIT_CRASHED, f"{type(error).__name__}: {error}"
        else:
            return
        self._loop.call_soon_threadsafe(self._events.on_end, status, reason)

    def _warm_up(self) -> tuple[Warm, list[RunBatch]]:
        options = self._options
        bundle = loading.fetch(options)
        self._loop.call_soon_threadsafe(self._events.on_bundle, bundle)
        manifest = bundle.manifest
        max_rows = min(manifest.max_batch_rows, options.max_batch_rows or manifest.max_batch_rows)
        loaded = loading.load(options, bundle, max_rows, self._start_instance)
        measured, *_ = [loading.warm_up(run_batch, bundle, max_rows) for run_batch in loaded.instances]
        loaded.serve()
        batcher = Batcher(
            manifest.output.model_width,
            BatchPolicy(max_rows, round(options.max_queue_delay_ms * 1e6), loaded.preferred_rows),
            max(options.max_queued_rows, max_rows),
            measured.fit,
            self._hand_over,
            instances=len(loaded.instances),
            allocate=loaded.allocate,
        )
        warm = Warm(
            manifest, bundle.digest, batcher, max_rows, measured.table, loaded.overruns, loaded.give_threads
        )
        return warm, loaded.instances

    def _start_instance(self, start: Callable[[], RemoteInstance]) -> RemoteInstance:
        return asyncio.run_coroutine_threadsafe(asyncio.to_thread(start), self._loop).result()

    def _hand_over(self, outcome: Outcome) -> None:
        self._loop.call_soon_threadsafe(self._events.on_outcome, outcome)
