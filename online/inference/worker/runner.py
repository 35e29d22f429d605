"""The model in a process: its program, called with stacked tensors. Of this tier only this and `cuda` load torch.

torch keeps its settings for each thread, and CUDA a context.
"""

import threading

import torch

from online.inference.worker.execution import DeviceLost, OutOfMemory
from online.inference.worker.options import WorkerOptions
from runtime.program import Program, load_program, set_threads
from schemas.bundle import Bundle
from schemas.manifest import Manifest
from schemas.wire import Float32Array, Tensor


class Runner:
    """A `RunBatch` over a bundle's program in this process: stacked tensors in the manifest's order of inputs.

    Args:
        threads: how many torch may use.
    """

    def __init__(self, program: Program, manifest: Manifest, threads: int) -> None:
        self.program, self._threads = program, threads
        self._names = [tensor.name for tensor in manifest.inputs]
        self._set: tuple[int, int] | None = None  # the thread for which torch was last told, and what

    def give_threads(self, threads: int) -> None:
        """How many torch may use; followed from the next batch on. May be called in any thread."""
        self._threads = threads

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """Raises DeviceLost where the CUDA context is beyond use, OutOfMemory, else whatever the model raises."""
        wanted = (threading.get_ident(), self._threads)
        if self._set != wanted:
            self._set = wanted
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


def load_here(options: WorkerOptions, bundle: Bundle) -> Runner:
    """The bundle's program in this process, checked by its golden rows. Raises BundleError."""
    set_threads(options.threads)
    program = load_program(bundle.folder, bundle.manifest, options.device.torch_name, options.precision)
    return Runner(program, bundle.manifest, options.threads)
