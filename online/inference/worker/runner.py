"""The model in its worker: loaded once, warmed up, its T(b) measured. Nothing else in this tier loads torch.

Everything here runs in the device thread: torch keeps per-thread settings, and CUDA a per-thread context.
"""

import ctypes
import logging
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from online.inference.worker import cuda
from online.inference.worker.execution import DeviceLost, OutOfMemory, RunBatch
from online.inference.worker.golden import GoldenRows
from online.inference.worker.instance import RemoteInstance
from online.inference.worker.memory_check import check_memory
from online.inference.worker.options import WorkerOptions
from online.inference.worker.stage import Allocate, plain_arrays
from runtime.program import Program, load_program, set_threads
from schemas.bundle import Bundle, BundleError, fetch_bundle
from schemas.capacity import BatchTime, fit_batch_time
from schemas.manifest import Manifest
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

_MEASURED = 3
_SLOW_BATCH_S = 1.0  # such a batch is measured once only
_PR_SET_TIMERSLACK = 29
_MOST_LATE_S = 2e-4  # of an emulated device's waking: what is more is somebody else's work


@dataclass(frozen=True, slots=True)
class Measured:
    """T(b) at some batch sizes, (rows, ms) each, and the line through them."""

    table: list[tuple[int, float]]
    fit: BatchTime


@dataclass(slots=True)
class ThreadShare:
    """How many threads torch may use; changed from another thread, followed at the next batch."""

    threads: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """A bundle on its device.

    Attributes:
        instances: one `RunBatch` for each device thread.
        give_threads: how many torch may use, all instances together.
        overruns: how many batches took longer than the device that is emulated; always 0 for a real one.
        allocate: memory from which the device reads fastest.
        preferred_rows: as in `BatchPolicy`.
    """

    instances: list[RunBatch]
    give_threads: Callable[[int], None]
    overruns: Callable[[], int] = lambda: 0
    allocate: Allocate = plain_arrays
    preferred_rows: tuple[int, ...] = ()


class Runner:
    """A `RunBatch` over a bundle's program in this process: stacked tensors in the manifest's order of inputs."""

    def __init__(self, program: Program, manifest: Manifest, share: ThreadShare) -> None:
        self.program, self.share = program, share
        self._names = [tensor.name for tensor in manifest.inputs]
        self._threads = 0

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """Raises DeviceLost where the CUDA context is beyond use, OutOfMemory, else whatever the model raises."""
        if self._threads != self.share.threads:  # torch keeps it for each thread
            self._threads = self.share.threads
            set_threads(self._threads)
        try:
            return self.program(dict(zip(self._names, tensors, strict=True)))
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
                if self.program.device.type == "cuda":
                    torch.cuda.empty_cache()
                raise OutOfMemory(str(error).partition("\n")[0]) from None
            if "CUDA error" in str(error):  # every later call would fail in the same way
                raise DeviceLost(str(error).partition("\n")[0]) from error
            raise


class EmulatedRunner:
    """Makes each batch take T(b): what the program left of it is waited out. `overruns` counts the others.

    Half of the wait comes before the program: while a device works, the interpreter is the event loop's, which
    then answers the last batch. The program, being here in the device's stead, would hold it.

    A thread that sleeps wakes late, by what depends on the machine and its load. So it sleeps less by what that
    mostly is, and looks at the clock for what is left: no batch is shorter than T(b), and few are longer.

    Args:
        now_s, sleep: the clock; a test brings its own.
    """

    def __init__(
        self,
        run_batch: RunBatch,
        time_of_batch: BatchTime,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run_batch, self._time = run_batch, time_of_batch
        self._now_s, self._sleep = now_s, sleep
        self._program_s = 0.0
        self._wakes_late_s = 0.0
        self._thread: threading.Thread | None = None
        self.overruns = 0

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        batch_s = self._time.batch_ms(len(tensors[0])) / 1e3
        end_s = self._now_s() + batch_s
        if self._thread is not threading.current_thread():
            self._thread = threading.current_thread()
            _wake_precisely()
        # Twice the last run's time is kept for this one.
        self._sleep(max(0.0, batch_s / 2 - self._program_s))
        began_s = self._now_s()
        outputs = self._run_batch(tensors)
        self._program_s = self._now_s() - began_s
        if self._now_s() > end_s:
            self.overruns += 1
        else:
            self._wait_until(end_s)
        return outputs

    def _wait_until(self, end_s: float) -> None:
        wakes_s = end_s - self._wakes_late_s
        if (asleep_s := wakes_s - self._now_s()) > 0:
            self._sleep(asleep_s)
            late_s = min(max(0.0, self._now_s() - wakes_s), _MOST_LATE_S)
            self._wakes_late_s += (late_s - self._wakes_late_s) / 8
        while self._now_s() < end_s:
            pass


def fetch(options: WorkerOptions) -> Bundle:
    """The verified bundle. Raises BundleError."""
    return fetch_bundle(options.url, options.digest, options.cache, options.allowed_urls)


def load(options: WorkerOptions, bundle: Bundle, max_rows: int) -> Loaded:
    """The bundle on its device, checked by its golden rows. Raises BundleError, also where it does not fit."""
    device = options.device
    is_cuda = device.torch_name.startswith("cuda")
    check_memory(options, bundle, max_rows, torch.cuda.mem_get_info(device.torch_name)[0] if is_cuda else None)
    if options.instances > 1 and device.torch_name == "cpu" and device.emulated is None:
        return _load_apart(options)
    runner = load_here(options, bundle)

    def give_threads(threads: int) -> None:
        runner.share.threads = threads

    if device.emulated is not None:
        emulated = [EmulatedRunner(runner, device.emulated) for _ in range(options.instances)]
        return Loaded(list(emulated), give_threads, lambda: sum(one.overruns for one in emulated))
    if is_cuda:
        return _on_streams(options, bundle, runner, max_rows, give_threads)
    return Loaded([runner], give_threads)


def load_here(options: WorkerOptions, bundle: Bundle) -> Runner:
    """The bundle's program in this process, checked by its golden rows. Raises BundleError."""
    set_threads(options.threads)
    program = load_program(bundle.folder, bundle.manifest, options.device.torch_name, options.precision)
    return Runner(program, bundle.manifest, ThreadShare(options.threads))


def _on_streams(
    options: WorkerOptions, bundle: Bundle, runner: Runner, max_rows: int, give_threads: Callable[[int], None]
) -> Loaded:
    instances = [cuda.StreamInstance(runner, runner.program) for _ in range(options.instances)]
    sizes: tuple[int, ...] = ()
    if options.cuda_graphs:
        golden, sizes = GoldenRows(bundle), tuple(batch_sizes(max_rows))
        paddings: list[dict[str, int] | None] = [*golden.paddings] or [None]
        for instance in instances:
            instance.capture([golden.batch(rows, lengths) for lengths in paddings for rows in sizes])
    return Loaded(list(instances), give_threads, allocate=cuda.pinned_arrays, preferred_rows=sizes)


def _load_apart(options: WorkerOptions) -> Loaded:
    """Instances in processes of their own. Raises BundleError with the first's reason."""
    count = options.instances
    threads = max(1, options.threads // count)
    argv = [*options.argv, "--instances", "1", "--threads", str(threads)]
    instances = [RemoteInstance(argv, threads) for _ in range(count)]
    for instance in instances:
        try:
            instance.wait_until_loaded()
        except DeviceLost as error:
            raise BundleError(str(error)) from None

    def give_threads(threads: int) -> None:
        for instance in instances:
            instance.give_threads(max(1, threads // count))

    return Loaded(list(instances), give_threads)


def warm_up(run_batch: RunBatch, bundle: Bundle, max_rows: int) -> Measured:
    """Runs batches of 1, 2, 4 … `max_rows` golden rows, and fits T(b).

    Text is run at each padded length first, so that none is slow when it first comes. T(b) is of the length of the
    golden row in the middle: those rows are spread over the training data by length.
    """
    golden = GoldenRows(bundle)
    for lengths in golden.paddings:
        for rows in sorted({1, max_rows}):
            run_batch(golden.batch(rows, lengths))
    if golden.usual:
        log.info("T(b) is measured on text of the usual length", extra={"padded": golden.usual})
    table: list[tuple[int, float]] = []
    for rows in batch_sizes(max_rows):
        table.append((rows, _measure_ms(partial(run_batch, golden.batch(rows)))))
    return Measured(table, fit_batch_time([rows for rows, _ in table], [ms for _, ms in table]))


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
    """Linux wakes a thread up to 50 µs late to save power, unless its own timer slack says otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
