"""A bundle's program, loaded and checked: numpy tensors in, raw outputs out.

The only torch that Spark's workers and the inference tier share. What the archive may hold is decided by
`schemas.archive` before torch sees it; here the rest of "no pickle" is closed, and the golden rows are run.
"""

import hashlib
import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.export.passes import move_to_device_pass

from schemas.archive import Archive, ArchiveError, inspect_archive
from schemas.bundle import BundleError
from schemas.features import FeatureTransform, Tensor
from schemas.manifest import MODEL_FILE, Manifest
from schemas.outputs import calibrate

Float32Array = npt.NDArray[np.float32]

_FORCE_SAFE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


class Program:
    """Callable: input tensors by name, each (n, width), to raw outputs, (n, K) float32."""

    def __init__(self, module: torch.nn.Module, manifest: Manifest, device: torch.device) -> None:
        self._module = module
        self._inputs = [(tensor.name, tensor.width, np.dtype(tensor.dtype)) for tensor in manifest.inputs]
        self._outputs = len(manifest.output.outputs)
        self.device = device

    def __call__(self, tensors: Mapping[str, Tensor]) -> Float32Array:
        """Runs one batch.

        Raises:
            ValueError: tensors of another name, width, type or number of rows than the manifest says, or an
                output that is not (n, K) float32.
        """
        rows = len(next(iter(tensors.values()), ()))
        inputs = [self._input(tensors, name, (rows, width), dtype) for name, width, dtype in self._inputs]
        with torch.inference_mode():
            out = self._module(*inputs)
        if not isinstance(out, torch.Tensor) or out.shape != (rows, self._outputs) or out.dtype != torch.float32:
            shape = (tuple(out.shape), out.dtype) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(f"the model gave {shape}, not ({rows}, {self._outputs}) float32")
        result: Float32Array = out.cpu().numpy()
        return result

    def _input(
        self, tensors: Mapping[str, Tensor], name: str, shape: tuple[int, int], dtype: np.dtype[np.generic]
    ) -> torch.Tensor:
        given = tensors.get(name)
        if given is None or given.shape != shape or given.dtype != dtype:
            found = "nothing" if given is None else f"{given.shape} {given.dtype}"
            raise ValueError(f"input {name} must be {shape} {dtype}, not {found}")
        # Arrays mapped from Arrow or a frame may be read-only, which torch does not know: those are copied.
        return torch.from_numpy(np.require(given, requirements=["C", "W"])).to(self.device)


def load_program(folder: Path, manifest: Manifest, device: str = "cpu") -> Program:
    """Loads `model.pt2` of a verified bundle and runs its golden rows at batch 1, 2 and max.

    Args:
        device: `cpu` or `cuda:N`.

    Raises:
        BundleError: another file than the manifest's, an archive that is refused, a program of a newer torch, one
            that does not load, or a golden row out of tolerance. The message says which.
    """
    try:
        data = (folder / MODEL_FILE).read_bytes()
    except OSError as error:
        raise BundleError(f"{MODEL_FILE} cannot be read: {error}") from None
    if (found := hashlib.sha256(data).hexdigest()) != manifest.files[MODEL_FILE]:
        raise BundleError(f"{MODEL_FILE} has sha256 {found}, the manifest says {manifest.files[MODEL_FILE]}")
    program = open_program(data, manifest, device)
    check_golden(program, manifest)
    return program


def open_program(data: bytes, manifest: Manifest, device: str = "cpu") -> Program:
    """As `load_program`, of an archive's bytes and without golden rows: for the builder, which has none yet."""
    _check_torch_version(manifest.torch_version)
    try:
        archive = inspect_archive(data)
    except ArchiveError as error:
        raise BundleError(f"{MODEL_FILE} is refused: {error}") from None
    target = torch.device(device)
    with _safe_loads_only():
        _check_sample_inputs(archive)
        try:
            exported = torch.export.load(io.BytesIO(archive.to_bytes()))
            if target.type != "cpu":
                exported = move_to_device_pass(exported, target)
            # Guards are code compiled from the archive; `Program` checks shapes itself.
            module = exported.module(check_guards=False)
        except Exception as error:  # whatever a foreign file makes torch raise, the bundle is bad
            raise BundleError(f"{MODEL_FILE} does not load: {type(error).__name__}: {error}") from error
    return Program(module, manifest, target)


def check_golden(program: Program, manifest: Manifest) -> None:
    """Runs the golden rows one by one, in pairs, and repeated up to the maximum batch.

    Raises:
        BundleError: there are none, a record is refused, or an output is out of tolerance.
    """
    if not manifest.golden:
        raise BundleError("the manifest has no golden row to check the program by")
    done = FeatureTransform(manifest).records([row.record for row in manifest.golden])
    for problem in done.problems:
        raise BundleError(f"golden row {problem.row}: {problem.feature} {problem.reason}")
    expected = np.array([row.outputs for row in manifest.golden], dtype=np.float32)
    for places in _golden_batches(len(expected), manifest.max_batch_rows):
        batch = {name: tensor[places] for name, tensor in done.tensors.items()}
        try:
            found = calibrate(manifest.output, program(batch))
        except (ValueError, RuntimeError) as error:
            raise BundleError(f"the golden rows fail at batch {len(places)}: {error}") from error
        _compare_golden(manifest, places, found, expected[places])


def set_threads(threads: int) -> None:
    """Sets how many threads one forward may use, once and before the first program is loaded.

    torch's default is the host's core count, which is not a container's quota nor this process's share of it.
    Threads between operators stay unused: a program runs its operators one after the other.
    """
    torch.set_num_threads(threads)


def _golden_batches(golden: int, maximum: int) -> Iterator[npt.NDArray[np.int64]]:
    for row in range(golden):
        yield np.array([row])
    if maximum >= 2:
        for row in range(golden):
            yield np.array([row, (row + 1) % golden])
        yield np.arange(maximum) % golden


def _compare_golden(
    manifest: Manifest, places: npt.NDArray[np.int64], found: Float32Array, expected: Float32Array
) -> None:
    allowed = manifest.tolerance.absolute + manifest.tolerance.relative * np.abs(expected)
    bad = ~(np.abs(found - expected) <= allowed)  # also where it is NaN
    for row, column in np.argwhere(bad):
        raise BundleError(
            f"golden row {places[row]} at batch {len(places)}: {manifest.output_names[column]} is "
            f"{found[row, column]:.7g}, the manifest says {expected[row, column]:.7g}"
        )


def _check_sample_inputs(archive: Archive) -> None:
    if archive.sample_inputs is None:
        return
    try:
        torch.load(io.BytesIO(archive.sample_inputs), weights_only=True, map_location="cpu")
    except Exception as error:  # any failure of the safe load is a refusal
        raise BundleError(f"{MODEL_FILE}: its sample inputs need more than a safe load: {error}") from error


@contextmanager
def _safe_loads_only() -> Iterator[None]:
    """Closes torch's retry with `weights_only=False`: while set, every `torch.load` is a safe one."""
    before = os.environ.get(_FORCE_SAFE)
    os.environ[_FORCE_SAFE] = "1"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own internals here; nothing a caller could change
            yield
    finally:
        if before is None:
            del os.environ[_FORCE_SAFE]
        else:
            os.environ[_FORCE_SAFE] = before


def _check_torch_version(exported_by: str) -> None:
    if _release(exported_by) > _release(torch.__version__):
        raise BundleError(f"{MODEL_FILE} was exported by torch {exported_by}, newer than this {torch.__version__}")


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"([0-9]+)\.([0-9]+)", version)
    if match is None:
        raise BundleError(f"torch_version {version!r} is no version")
    return int(match[1]), int(match[2])
