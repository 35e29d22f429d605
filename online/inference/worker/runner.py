"""The model in its worker: loaded once, warmed up, its T(b) measured. Nothing else in this tier loads torch.

Everything here runs in the device thread: torch keeps per-thread settings, and CUDA a per-thread context.
"""

import ctypes
import logging
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from online.inference.worker.batcher import DeviceLost, RunBatch
from online.inference.worker.options import WorkerOptions
from runtime.program import Program, load_program, set_threads
from schemas.bundle import Bundle, fetch_bundle
from schemas.capacity import BatchTime, fit_batch_time
from schemas.features import FeatureTransform
from schemas.manifest import Manifest
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

_MEASURED = 3
_SLOW_BATCH_S = 1.0  # such a batch is measured once only
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class Measured:
    """T(b) at some batch sizes, (rows, ms) each, and the line through them."""

    table: list[tuple[int, float]]
    fit: BatchTime


class Runner:
    """A `RunBatch` over a bundle's program: stacked tensors in the manifest's order of inputs."""

    def __init__(self, program: Program, manifest: Manifest) -> None:
        self._program = program
        self._names = [tensor.name for tensor in manifest.inputs]

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """Raises DeviceLost where the CUDA context is beyond use, else whatever the model raises."""
        try:
            return self._program(dict(zip(self._names, tensors, strict=True)))
        except RuntimeError as error:
            if "CUDA error" in str(error):  # every later call would fail in the same way
                raise DeviceLost(str(error).partition("\n")[0]) from error
            raise


class EmulatedRunner:
    """Makes each batch take T(b): what the program left of it is waited out. `overruns` counts the others.

    Half of the wait comes before the program: while a device works, the interpreter is the event loop's, which
    then answers the last batch. The program, being here in the device's stead, would hold it.
    """

    def __init__(self, run_batch: RunBatch, time_of_batch: BatchTime) -> None:
        self._run_batch, self._time = run_batch, time_of_batch
        self._program_s = 0.0
        self.overruns = 0

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        batch_s = self._time.batch_ms(len(tensors[0])) / 1e3
        end_s = time.monotonic() + batch_s
        # Twice the last run's time is kept for this one.
        time.sleep(max(0.0, batch_s / 2 - self._program_s))
        began_s = time.monotonic()
        outputs = self._run_batch(tensors)
        self._program_s = time.monotonic() - began_s
        if (left_s := end_s - time.monotonic()) > 0:
            time.sleep(left_s)
        else:
            self.overruns += 1
        return outputs


def fetch(options: WorkerOptions) -> Bundle:
    """The verified bundle. Raises BundleError."""
    return fetch_bundle(options.url, options.digest, options.cache, options.allowed_urls)


def load(options: WorkerOptions, bundle: Bundle) -> RunBatch:
    """The bundle's program on its device, checked by its golden rows. Raises BundleError."""
    set_threads(options.threads)
    program = load_program(bundle.folder, bundle.manifest, options.device.torch_name)
    runner = Runner(program, bundle.manifest)
    if options.device.emulated is None:
        return runner
    _wake_precisely()
    return EmulatedRunner(runner, options.device.emulated)


def warm_up(run_batch: RunBatch, manifest: Manifest, max_rows: int) -> Measured:
    """Runs batches of 1, 2, 4 … `max_rows` golden rows, and fits T(b)."""
    golden = FeatureTransform(manifest).records([row.record for row in manifest.golden]).tensors
    rows_of = [golden[tensor.name] for tensor in manifest.inputs]
    table: list[tuple[int, float]] = []
    for rows in batch_sizes(max_rows):
        tensors = [np.resize(tensor, (rows, *tensor.shape[1:])) for tensor in rows_of]
        table.append((rows, _measure_ms(partial(run_batch, tensors))))
    return Measured(table, fit_batch_time([rows for rows, _ in table], [ms for _, ms in table]))


def overruns_of(run_batch: RunBatch) -> Callable[[], int]:
    """How many batches took longer than the device that is emulated; always 0 for a real one."""
    if isinstance(run_batch, EmulatedRunner):
        return lambda: run_batch.overruns
    return lambda: 0


def batch_sizes(max_rows: int) -> list[int]:
    """1, 2, 4 … and `max_rows`."""
    return sorted({min(1 << power, max_rows) for power in range(max_rows.bit_length() + 1)})


def _measure_ms(run: Callable[[], object]) -> float:
    """Median of a few runs after a first that is not counted."""
    first_ms = _time_ms(run)
    runs = 1 if first_ms > 1e3 * _SLOW_BATCH_S else _MEASURED
    return statistics.median(_time_ms(run) for _ in range(runs))


def _time_ms(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e3


def _wake_precisely() -> None:
    """Linux wakes a sleeping thread up to 50 µs late to save power, unless its timer slack says otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
