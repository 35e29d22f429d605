"""The bundle's program on its device: the same outputs as bare, T(b) measured, and emulated as it says."""

import ctypes
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from online.inference.worker import loading, runner
from online.inference.worker.emulated import EmulatedRunner
from online.inference.worker.execution import OutOfMemory, RunBatch
from online.inference.worker.options import WorkerOptions
from schemas.bundle import Bundle, BundleError
from schemas.capacity import BatchTime
from schemas.manifest import Tolerance
from schemas.wire import Float32Array, Tensor
from tests.inference.test_node import bare, random_rows
from tests.support.gated_worker import gated_manifest

_PR_GET_TIMERSLACK = 30


def options_of(bundle: Bundle, cache: Path, device: str, allowed: Path | None = None) -> WorkerOptions:
    return WorkerOptions.from_argv(
        [
            f"--url={bundle.folder}",
            f"--digest={bundle.digest}",
            f"--cache={cache}",
            f"--allowed-url={allowed or bundle.folder}",
            f"--device={device}",
        ]
    )


@pytest.mark.parametrize(("maximum", "sizes"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_batches_are_measured_at_powers_of_two_and_the_maximum(maximum: int, sizes: list[int]) -> None:
    assert loading.batch_sizes(maximum) == sizes


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_device_gives_what_the_bare_program_gives(bundle: Bundle, tmp_path: Path, device: str) -> None:
    if device != "cpu" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA device")
    loaded = loading.load(options_of(bundle, tmp_path, device), bundle, 8)
    (run_batch,) = loaded.instances
    measured = loading.warm_up(run_batch, bundle, 8)
    assert [rows for rows, _ in measured.table] == [1, 2, 4, 8]
    assert measured.fit.batch_ms(1) > 0
    for rows in (1, 2, 7):
        tensors = random_rows(rows)
        np.testing.assert_allclose(run_batch(tensors), bare(bundle, tensors), rtol=1e-4, atol=1e-4)
    loaded.close()


@pytest.mark.gpu
def test_streams_and_captured_batches_give_what_the_bare_program_gives(bundle: Bundle, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device")
    options = options_of(bundle, tmp_path, "cuda:0")
    graphs = WorkerOptions.from_argv([*options.argv, "--instances", "2", "--cuda-graphs"])
    loaded = loading.load(graphs, bundle, 8)
    assert loaded.preferred_rows == (1, 2, 4, 8)
    assert len(loaded.instances) == 2
    for rows in (1, 3, 8):  # 3 is padded to 4
        tensors = random_rows(rows)
        pinned = [loaded.allocate(tensor.shape, tensor.dtype) for tensor in tensors]
        for held, given in zip(pinned, tensors, strict=True):
            held[:] = given
        with ThreadPoolExecutor(2) as pool:
            found = [running.result() for running in [pool.submit(one, pinned) for one in loaded.instances]]
        for outputs in found:
            np.testing.assert_allclose(outputs, bare(bundle, tensors), rtol=1e-4, atol=1e-4)


def test_bfloat16_is_refused_where_it_leaves_the_tolerance(bundle: Bundle, tmp_path: Path) -> None:
    options = options_of(bundle, tmp_path, "cpu")
    mixed = WorkerOptions.from_argv([*options.argv, "--precision", "bfloat16"])
    with pytest.raises(BundleError, match="golden row"):
        loading.load(mixed, bundle, 8)
    loose = bundle.manifest.model_copy(update={"tolerance": Tolerance(absolute=0.5, relative=0.1)})
    run_batch = runner.load_here(mixed, Bundle(bundle.folder, loose, bundle.digest))
    tensors = random_rows(8)
    found, exact = run_batch(tensors), bare(bundle, tensors)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - exact).max() < 0.2


def test_memory_that_cannot_be_had_is_told_from_other_errors() -> None:
    """By torch's own error: the allocator of the CPU has no type of its own for it."""

    class Greedy:
        device = torch.device("cpu")

        def __call__(self, tensors: dict[str, Tensor]) -> Float32Array:
            return torch.empty(1 << 50, dtype=torch.float32).numpy()

    manifest = gated_manifest(4)
    run_batch = runner.Runner(Greedy(), manifest, 1)  # type: ignore[arg-type]
    with pytest.raises(OutOfMemory):
        run_batch([np.ones((1, 1), np.float32)])


def test_an_emulated_device_takes_the_time_it_should_and_counts_overruns() -> None:
    fast = EmulatedRunner(_first, BatchTime(4.0, 2.0))
    took_ms = [_time_ms(fast, 3) for _ in range(20)]
    assert 10.0 <= min(took_ms) < 11.0  # the least, since other work on this machine makes some late
    assert fast.overruns < len(took_ms)

    def slow(tensors: list[Tensor]) -> Float32Array:
        time.sleep(0.01)
        return _first(tensors)

    late = EmulatedRunner(slow, BatchTime(1.0, 1.0))
    _time_ms(late, 1)
    assert late.overruns == 1


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a timer slack of their own on Linux")
def test_an_emulated_device_wakes_without_slack_in_whichever_thread_runs_it() -> None:
    """It is warmed up in one thread and serves in another."""
    device = EmulatedRunner(_first, BatchTime(1.0, 0.0))

    def slack_ns() -> int:
        _time_ms(device, 1)
        return ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)

    for _ in range(2):
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(slack_ns).result() == 1


def test_an_emulated_device_that_is_woken_late_is_late_by_less_the_next_time() -> None:
    clock = LateClock(late_s=1e-4)
    device = EmulatedRunner(_first, BatchTime(5.0, 1.0), clock.look, clock.sleep)
    late_s = []
    for _ in range(60):
        began_s = clock.now_s
        device([np.zeros((1, 1), np.float32)])
        late_s.append(clock.now_s - began_s - 6e-3)
    assert min(late_s) >= -1e-9  # never shorter than T(b)
    assert late_s[0] == pytest.approx(1e-4, abs=1e-5)
    assert late_s[-1] < 5e-6


class LateClock:
    """A clock that costs a microsecond to look at, on which every sleep is too long by `late_s`."""

    def __init__(self, late_s: float) -> None:
        self.now_s, self._late_s = 0.0, late_s

    def look(self) -> float:
        self.now_s += 1e-6
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds + self._late_s


def test_a_bundle_from_elsewhere_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="under none of the allowed"):
        loading.fetch(options_of(bundle, tmp_path / "cache", "cpu", allowed=tmp_path))


def _first(tensors: list[Tensor]) -> Float32Array:
    return tensors[0].astype(np.float32)


def _time_ms(run_batch: RunBatch, rows: int) -> float:
    began = time.perf_counter()
    run_batch([np.zeros((rows, 1), np.float32)])
    return (time.perf_counter() - began) * 1e3
