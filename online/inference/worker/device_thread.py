"""The device thread: loads the bundle, warms it up, then runs the batcher until it is stopped or dies.

Its events are called in the event loop. torch is imported in this thread, so the loop answers the node meanwhile.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from online.inference.report import EXIT_DRAINED, EXIT_REFUSED
from online.inference.worker.batch_policy import BatchPolicy
from online.inference.worker.batcher import Batcher, Outcome
from online.inference.worker.options import WorkerOptions
from schemas.bundle import Bundle, BundleError
from schemas.capacity import BatchTime
from schemas.manifest import Manifest

log = logging.getLogger(__name__)

EXIT_CRASHED = 1


@dataclass(frozen=True, slots=True)
class Warm:
    """A version that can serve. `overruns` tells how many batches an emulated device could not do in time."""

    manifest: Manifest
    digest: str
    batcher: Batcher
    max_batch_rows: int
    table: list[tuple[int, float]]
    fit: BatchTime
    overruns: Callable[[], int]


class DeviceEvents(Protocol):
    def on_bundle(self, bundle: Bundle) -> None: ...
    def on_warm(self, warm: Warm) -> None: ...
    def on_outcome(self, outcome: Outcome) -> None: ...
    def on_end(self, status: int, reason: str) -> None: ...


def start_device_thread(options: WorkerOptions, events: DeviceEvents) -> threading.Thread:
    """To be called in the event loop. A daemon: one that hangs in a kernel must not keep the process."""
    loop = asyncio.get_running_loop()
    thread = threading.Thread(target=_body, args=(options, events, loop), name="device", daemon=True)
    thread.start()
    return thread


def _body(options: WorkerOptions, events: DeviceEvents, loop: asyncio.AbstractEventLoop) -> None:
    try:
        warm = _warm_up(options, events, loop)
        loop.call_soon_threadsafe(events.on_warm, warm)
        warm.batcher.run()
        status, reason = EXIT_DRAINED, ""
    except BundleError as error:
        status, reason = EXIT_REFUSED, str(error)
    except BaseException as error:
        log.error("the device thread died", exc_info=True)
        status, reason = EXIT_CRASHED, f"{type(error).__name__}: {error}"
    loop.call_soon_threadsafe(events.on_end, status, reason)


def _warm_up(options: WorkerOptions, events: DeviceEvents, loop: asyncio.AbstractEventLoop) -> Warm:
    from online.inference.worker import runner  # here, because it loads torch, which takes seconds

    bundle = runner.fetch(options)
    loop.call_soon_threadsafe(events.on_bundle, bundle)
    run_batch = runner.load(options, bundle)
    max_rows = min(bundle.manifest.max_batch_rows, options.max_batch_rows or bundle.manifest.max_batch_rows)
    measured = runner.warm_up(run_batch, bundle.manifest, max_rows)
    batcher = Batcher(
        run_batch,
        len(bundle.manifest.output.outputs),
        BatchPolicy(max_rows, round(options.max_queue_delay_ms * 1e6)),
        max(options.max_queued_rows, max_rows),
        lambda outcome: _hand_over(loop, events, outcome),
    )
    overruns = runner.overruns_of(run_batch)
    return Warm(bundle.manifest, bundle.digest, batcher, max_rows, measured.table, measured.fit, overruns)


def _hand_over(loop: asyncio.AbstractEventLoop, events: DeviceEvents, outcome: Outcome) -> None:
    loop.call_soon_threadsafe(events.on_outcome, outcome)
