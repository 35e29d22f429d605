"""Whether a bundle fits into what its device has free, told before anything of it is loaded."""

import logging

from online.inference.memory import available_bytes
from online.inference.worker.options import WorkerOptions
from schemas.bundle import Bundle, BundleError
from schemas.footprint import FootprintError, footprint
from schemas.manifest import MODEL_FILE

log = logging.getLogger(__name__)

_MIB = 1 << 20


def check_memory(options: WorkerOptions, bundle: Bundle, max_rows: int, device_free_bytes: int | None) -> None:
    """Raises BundleError, with the figures, where weights and activations need more than there is.

    Args:
        device_free_bytes: of an accelerator; None on CPU, where the host is asked.
    """
    try:
        one = footprint((bundle.folder / MODEL_FILE).read_bytes(), max_rows)
    except FootprintError as error:
        log.warning("loaded without knowing whether it fits: %s", error)
        return
    # On an accelerator the instances share their weights; on CPU each is a process.
    copies = options.instances if device_free_bytes is None and options.device.emulated is None else 1
    needed = copies * one.weights_bytes + options.instances * one.activations_bytes
    free = available_bytes() if device_free_bytes is None else device_free_bytes
    limits = [("the memory limit of a version (INFERENCE_MEMORY_LIMIT_MIB)", options.memory_limit_mib)]
    if free is not None:
        limits.append((f"what is free on {options.device.torch_name}", free // _MIB))
    for name, limit_mib in limits:
        if limit_mib is not None and needed > limit_mib * _MIB:
            raise BundleError(
                f"the program needs about {_mib(needed)} ({_mib(copies * one.weights_bytes)} of weights and "
                f"{_mib(options.instances * one.activations_bytes)} of activations at {max_rows} rows), "
                f"{name} is {limit_mib} MiB: lower the largest batch (INFERENCE_MAX_BATCH_ROWS) or make room"
            )


def _mib(size: int) -> str:
    return f"{size / _MIB:.1f} MiB"
