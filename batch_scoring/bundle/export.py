"""From an `nn.Module` to the bytes of a `model.pt2`, whose number of rows, and length of text, is open."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from schemas.archive import ArchiveError, inspect_archive
from schemas.bundle import BundleError
from schemas.manifest import Manifest

# Exported at batch 3: torch would specialise on 0 and 1, and 2 is too easily some other dimension's size.
_EXPORT_ROWS = 3


def export_program(module: torch.nn.Module, manifest: Manifest) -> bytes:
    """The archive's bytes, in the form in which `schemas.archive` would pass them on.

    Raises:
        BundleError: the module does not export, or to something that a bundle may not hold.
    """
    module.eval()
    inputs, dimensions = _examples(manifest)
    buffer = io.BytesIO()
    try:
        with _quiet_torch():
            exported = torch.export.export(module, inputs, dynamic_shapes=dimensions)
            torch.export.save(exported, buffer)
        return inspect_archive(buffer.getvalue()).to_bytes()
    except ArchiveError as error:
        raise BundleError(f"the model uses what a bundle may not hold: {error}") from None
    except Exception as error:  # the user's module may raise anything while it is traced
        raise BundleError(f"the model does not export: {type(error).__name__}: {error}") from error


def _examples(manifest: Manifest) -> tuple[tuple[torch.Tensor, ...], tuple[dict[int, Any], ...]]:
    """An example of each input, and the dimensions of it that are open."""
    rows = torch.export.Dim("rows", min=1, max=manifest.max_batch_rows)
    lengths: dict[str, Any] = {}
    inputs, dimensions = [], []
    for tensor in manifest.inputs:
        dtype, size, free = getattr(torch, tensor.dtype), tensor.width, {0: rows}
        if tensor.part is not None:
            buckets = manifest.text_features[tensor.features[0]].length_buckets
            size = buckets[0]
            if len(buckets) > 1:
                # One more than a bucket: a power of two is too easily some other dimension's size.
                size = buckets[0] + 1
                name = f"length_{len(lengths)}"
                length = lengths.setdefault(
                    tensor.features[0], torch.export.Dim(name, min=buckets[0], max=buckets[-1])
                )
                free = {0: rows, 1: length}
        inputs.append(torch.zeros(_EXPORT_ROWS, size, dtype=dtype))
        dimensions.append(free)
    return tuple(inputs), tuple(dimensions)


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """torch logs each export's internals as warnings; a failure is raised anyway."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
