"""A bundle's program, loaded and checked: numpy tensors in, raw outputs out.

The only torch that Spark's workers and the inference tier share. What the archive may hold is decided by
`schemas.archive` before torch sees it; here the rest of "no pickle" is closed, and the golden rows are run.
"""

import hashlib
import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.export.passes import move_to_device_pass

from schemas.archive import Archive, ArchiveError, inspect_archive
from schemas.bundle import BundleError, load_transform
from schemas.features import FeatureTransform, Tensor
from schemas.manifest import MODEL_FILE, Manifest
from schemas.outputs import calibrate, misfits
from schemas.shapes import InputShapes

Float32Array = npt.NDArray[np.float32]

Precision = Literal["float32", "bfloat16"]

_FORCE_SAFE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


class Program:
    """Callable: input tensors by name, (n, width) each or (n, length) of text, to raw outputs, (n, N) float32."""

    def __init__(
        self, module: torch.nn.Module, manifest: Manifest, device: torch.device, precision: Precision = "float32"
    ) -> None:
        self._module = module
        self._is_mixed = precision == "bfloat16"
        self._shapes = InputShapes(manifest)
        self._outputs = manifest.output.model_width
        self.device = device

    def __call__(self, tensors: Mapping[str, Tensor]) -> Float32Array:
        """Runs one batch.

        Raises:
            ValueError: tensors of another name, width, type or number of rows than the manifest says, or an
                output that is not (n, N) float32.
        """
        rows = len(next(iter(tensors.values()), ()))
        given = [tensors.get(name) for name in self._shapes.names]
        if (problem := self._shapes.problem(given, rows)) is not None:
            raise ValueError(problem)
        inputs = [self._input(tensor) for tensor in given if tensor is not None]
        with torch.inference_mode():
            out = self.forward(inputs)
        result: Float32Array = out.cpu().numpy()
        return result

    def forward(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """The model on tensors that are on its device, in wire order. Raises ValueError as a call does."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._is_mixed):
            out = self._module(*inputs)
        rows = len(inputs[0])
        if self._is_mixed and isinstance(out, torch.Tensor):
            out = out.float()
        if not isinstance(out, torch.Tensor) or out.shape != (rows, self._outputs) or out.dtype != torch.float32:
            shape = (tuple(out.shape), out.dtype) if isinstance(out, torch.Tensor) else type(out).__name__
            raise ValueError(f"the model gave {shape}, not ({rows}, {self._outputs}) float32")
        return out

    def _input(self, given: Tensor) -> torch.Tensor:
        # Arrays mapped from Arrow or a frame may be read-only, which torch does not know: those are copied.
        return torch.from_numpy(np.require(given, requirements=["C", "W"])).to(self.device, non_blocking=True)


def load_program(
    folder: Path, manifest: Manifest, device: str = "cpu", precision: Precision = "float32"
) -> Program:
    """Loads `model.pt2` of a verified bundle and runs its golden rows at batch 1, 2 and max.

    Args:
        device: `cpu` or `cuda:N`.
        precision: of what may be computed in it, where the golden rows stay within the manifest's tolerance.

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
    program = open_program(data, manifest, device, precision)
    check_golden(program, manifest, load_transform(folder, manifest))
    return program


def open_program(
    data: bytes, manifest: Manifest, device: str = "cpu", precision: Precision = "float32"
) -> Program:
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
    return Program(module, manifest, target, precision)


def check_golden(program: Program, manifest: Manifest, transform: FeatureTransform) -> None:
    """Runs the golden rows one by one, in pairs, and repeated up to the maximum batch; text at each length too.

    Raises:
        BundleError: there are none, a record is refused, or an output is out of tolerance.
    """
    if not manifest.golden:
        raise BundleError("the manifest has no golden row to check the program by")
    done = transform.records([row.record for row in manifest.golden])
    for problem in done.problems:
        raise BundleError(f"golden row {problem.row}: {problem.feature} {problem.reason}")
    expected = np.array([row.outputs for row in manifest.golden], dtype=np.float32)
    for places in _golden_batches(len(expected), manifest.max_batch_rows):
        _check_batch(program, manifest, expected, places, done.take(places))
    few = np.arange(min(len(expected), manifest.max_batch_rows))
    for lengths in done.paddings():
        if all(length >= done.texts[name].length_for(few) for name, length in lengths.items()):
            _check_batch(program, manifest, expected, few, done.take(few, lengths))


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


def _check_batch(
    program: Program,
    manifest: Manifest,
    expected: Float32Array,
    places: npt.NDArray[np.int64],
    batch: Mapping[str, Tensor],
) -> None:
    padded = {batch[tensor.name].shape[1] for tensor in manifest.inputs if tensor.part is not None}
    where = f"at batch {len(places)}" + (f", text padded to {' and '.join(map(str, padded))}" if padded else "")
    try:
        found = calibrate(manifest.output, program(batch))
    except (ValueError, RuntimeError, IndexError) as error:
        raise BundleError(f"the golden rows fail {where}: {error}") from error
    _compare_golden(manifest, places, found, expected[places], where)


def _compare_golden(
    manifest: Manifest, places: npt.NDArray[np.int64], found: Float32Array, expected: Float32Array, where: str
) -> None:
    for row, column in np.argwhere(misfits(manifest.output, manifest.tolerance, found, expected)):
        raise BundleError(
            f"golden row {places[row]} {where}: {manifest.output.stored_names[column]} is "
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
