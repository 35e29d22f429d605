"""The bundle's program on its device: the same outputs as bare, T(b) measured, and emulated as it says."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from online.inference.worker import runner
from online.inference.worker.batcher import RunBatch
from online.inference.worker.options import WorkerOptions
from schemas.bundle import Bundle, BundleError
from schemas.capacity import BatchTime
from schemas.wire import Float32Array, Tensor
from tests.inference.test_node import bare, random_rows


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
    assert runner.batch_sizes(maximum) == sizes


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_device_gives_what_the_bare_program_gives(bundle: Bundle, tmp_path: Path, device: str) -> None:
    if device != "cpu" and not torch.cuda.is_available():
        pytest.skip("no NVIDIA device")
    run_batch = runner.load(options_of(bundle, tmp_path, device), bundle)
    measured = runner.warm_up(run_batch, bundle.manifest, 8)
    assert [rows for rows, _ in measured.table] == [1, 2, 4, 8]
    assert measured.fit.batch_ms(1) > 0
    for rows in (1, 2, 7):
        tensors = random_rows(rows)
        np.testing.assert_allclose(run_batch(tensors), bare(bundle, tensors), rtol=1e-4, atol=1e-4)


def test_an_emulated_device_takes_the_time_it_should_and_counts_overruns() -> None:
    fast = runner.EmulatedRunner(_first, BatchTime(4.0, 2.0))
    took_ms = [_time_ms(fast, 3) for _ in range(20)]
    assert 10.0 <= min(took_ms) < 11.0  # the least, since other work on this machine makes some late
    assert runner.overruns_of(fast)() < len(took_ms)

    def slow(tensors: list[Tensor]) -> Float32Array:
        time.sleep(0.01)
        return _first(tensors)

    late = runner.EmulatedRunner(slow, BatchTime(1.0, 1.0))
    _time_ms(late, 1)
    assert runner.overruns_of(late)() == 1


def test_a_bundle_from_elsewhere_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="under none of the allowed"):
        runner.fetch(options_of(bundle, tmp_path / "cache", "cpu", allowed=tmp_path))


def _first(tensors: list[Tensor]) -> Float32Array:
    return tensors[0].astype(np.float32)


def _time_ms(run_batch: RunBatch, rows: int) -> float:
    began = time.perf_counter()
    run_batch([np.zeros((rows, 1), np.float32)])
    return (time.perf_counter() - began) * 1e3
