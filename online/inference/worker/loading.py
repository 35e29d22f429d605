"""A bundle on its device: fetched, loaded once, warmed up, its T(b) measured. Imports torch only where it must.

On CPU each instance is a process, and only those have torch; an emulated device and CUDA are the worker's own.
"""

import logging
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from online.inference.worker.emulated import EmulatedRunner
from online.inference.worker.execution import DeviceLost, RunBatch
from online.inference.worker.golden import GoldenRows
from online.inference.worker.memory_check import check_memory
from online.inference.worker.options import WorkerOptions
from online.inference.worker.remote_instance import RemoteInstance
from online.inference.worker.stage import Allocate, plain_arrays
from schemas.bundle import Bundle, BundleError, fetch_bundle
from schemas.capacity import BatchTime, fit_batch_time

log = logging.getLogger(__name__)

Start = Callable[[Callable[[], RemoteInstance]], RemoteInstance]

_MEASURED = 3
_SLOW_BATCH_S = 1.0  # such a batch is measured once only


@dataclass(frozen=True, slots=True)
class Measured:
    """T(b) at some batch sizes, (rows, ms) each, and the line through them."""

    table: list[tuple[int, float]]
    fit: BatchTime


def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Loaded:
    """A bundle on its device.

    Attributes:
        instances: one `RunBatch` for each device thread.
        give_threads: how many torch may use, all instances together.
        serve: ends the low priority of warming up.
        close: gives back what the end of this process would not, at once.
        overruns: how many batches took longer than the device that is emulated; always 0 for a real one.
        allocate: memory from which the device reads fastest.
        preferred_rows: as in `BatchPolicy`.
    """

    instances: list[RunBatch]
    give_threads: Callable[[int], None]
    serve: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing
    overruns: Callable[[], int] = lambda: 0
    allocate: Allocate = plain_arrays
    preferred_rows: tuple[int, ...] = ()


def fetch(options: WorkerOptions) -> Bundle:
    """The verified bundle. Raises BundleError."""
    return fetch_bundle(options.url, options.digest, options.cache, options.allowed_urls)


def load(
    options: WorkerOptions, bundle: Bundle, max_rows: int, start: Start = lambda instance: instance()
) -> Loaded:
    """The bundle on its device, checked by its golden rows. Raises BundleError, also where it does not fit.

    Args:
        start: calls its argument in a thread whose priority the processes of instances shall have.
    """
    device = options.device
    if device.torch_name != "cpu":
        return _load_on_cuda(options, bundle, max_rows)
    check_memory(options, bundle, max_rows, None)
    return _load_apart(options, bundle, start) if device.emulated is None else _load_emulated(options, bundle)


def _load_apart(options: WorkerOptions, bundle: Bundle, start: Start) -> Loaded:
    """In a process for each instance. Raises BundleError with the first's reason."""
    count = options.instances
    threads = max(1, options.threads // count)
    argv = [*options.argv, "--instances", "1", "--threads", str(threads)]
    instances = [start(partial(RemoteInstance, bundle.folder, argv, threads)) for _ in range(count)]

    def close() -> None:
        for instance in instances:
            instance.close()

    for instance in instances:
        try:
            instance.wait_until_loaded()
        except DeviceLost as error:
            close()
            raise BundleError(str(error)) from None

    def give_threads(threads: int) -> None:
        for instance in instances:
            instance.give_threads(max(1, threads // count))

    def serve() -> None:
        for instance in instances:
            instance.serve()

    return Loaded(list(instances), give_threads, serve, close)


def _load_emulated(options: WorkerOptions, bundle: Bundle) -> Loaded:
    from online.inference.worker.runner import load_here

    assert options.device.emulated is not None
    runner = load_here(options, bundle)
    instances = [EmulatedRunner(runner, options.device.emulated) for _ in range(options.instances)]
    return Loaded(
        list(instances), runner.give_threads, overruns=lambda: sum(instance.overruns for instance in instances)
    )


def _load_on_cuda(options: WorkerOptions, bundle: Bundle, max_rows: int) -> Loaded:
    from online.inference.worker import cuda
    from online.inference.worker.runner import load_here

    check_memory(options, bundle, max_rows, cuda.free_bytes(options.device.torch_name))
    runner = load_here(options, bundle)
    instances = [cuda.StreamInstance(runner, runner.program) for _ in range(options.instances)]
    sizes: tuple[int, ...] = ()
    if options.cuda_graphs:
        golden, sizes = GoldenRows(bundle), tuple(batch_sizes(max_rows))
        paddings: list[dict[str, int] | None] = [*golden.paddings] or [None]
        for instance in instances:
            instance.capture([golden.batch(rows, lengths) for lengths in paddings for rows in sizes])
    return Loaded(list(instances), runner.give_threads, allocate=cuda.pinned_arrays, preferred_rows=sizes)


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
