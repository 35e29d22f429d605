"""What an NVIDIA device adds: pinned memory, a stream for each instance, launches captured for preferred sizes.

Rows are stacked in pinned memory, from which they are copied without a detour while the host goes on; it waits for
the answer only. A captured batch replays all its launches in one call, at one of a few sizes; smaller ones
are padded with whatever the buffer held, and those rows are dropped.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from online.inference.worker.execution import RunBatch
from runtime.program import Program
from schemas.wire import Float32Array, Tensor

_RUNS_BEFORE_CAPTURE = 3  # lets libraries choose their kernels and take their workspaces


def pinned_arrays(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Tensor:
    """An `Allocate` of page-locked memory; the array keeps its tensor alive."""
    kind = torch.float32 if np.dtype(dtype) == np.float32 else torch.int64
    array: Tensor = torch.zeros(shape, dtype=kind, pin_memory=True).numpy()
    return array


def free_bytes(device: str) -> int:
    """Of the memory of `cuda:N`."""
    free, _ = torch.cuda.mem_get_info(device)
    return free


class StreamInstance:
    """A `RunBatch` on a stream of its own; instances share the program and its weights.

    Args:
        run_batch: over the same program; it runs on the current stream.
    """

    def __init__(self, run_batch: RunBatch, program: Program) -> None:
        self._run_batch, self._program = run_batch, program
        self._stream = torch.cuda.Stream(program.device)  # type: ignore[no-untyped-call]
        self._captured: dict[tuple[tuple[int, ...], ...], list[_Captured]] = {}

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """As the `run_batch` it was given; raises what that raises."""
        with torch.cuda.device(self._program.device), torch.cuda.stream(self._stream):
            rows = len(tensors[0])
            for captured in self._captured.get(_widths(tensors), ()):
                if captured.rows >= rows:
                    return captured.replay(tensors)
            return self._run_batch(tensors)

    def capture(self, batches: Sequence[list[Tensor]]) -> None:
        """Captures the launches of batches of these shapes, which hold valid rows."""
        with torch.cuda.device(self._program.device):
            for tensors in sorted(batches, key=lambda tensors: len(tensors[0])):
                captured = _Captured(self._program.forward, tensors, self._program.device, self._stream)
                self._captured.setdefault(_widths(tensors), []).append(captured)


class _Captured:
    """One batch size: its buffers on the device, and the graph that reads and writes them."""

    def __init__(
        self,
        forward: Callable[[Sequence[torch.Tensor]], torch.Tensor],
        tensors: list[Tensor],
        device: torch.device,
        stream: torch.cuda.Stream,
    ) -> None:
        self.rows = len(tensors[0])
        self._inputs = [torch.from_numpy(np.array(tensor)).to(device) for tensor in tensors]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), torch.inference_mode():
            for _ in range(_RUNS_BEFORE_CAPTURE):
                forward(self._inputs)
        self._graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(self._graph, stream=stream):
            self._outputs = forward(self._inputs)

    def replay(self, tensors: list[Tensor]) -> Float32Array:
        rows = len(tensors[0])
        with torch.inference_mode():
            for held, given in zip(self._inputs, tensors, strict=True):
                held[:rows].copy_(torch.from_numpy(np.require(given, requirements=["C", "W"])), non_blocking=True)
            self._graph.replay()
            outputs: Float32Array = self._outputs[:rows].cpu().numpy()
        return outputs


def _widths(tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    return tuple(tensor.shape[1:] for tensor in tensors)
