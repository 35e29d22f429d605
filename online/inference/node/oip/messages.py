"""A request and its answer, whichever transport they came by."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from online.inference.node.oip.tensors import Values

MAX_ID_BYTES = 1024


class Input(NamedTuple):
    """`values`: an array of `shape`, or for BYTES its elements in row-major order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Values


class RequestedOutput(NamedTuple):
    """`binary`: as REST's `binary_data` says, None where it says nothing."""

    name: str
    binary: bool | None = None


@dataclass(frozen=True, slots=True)
class Parameters:
    """Of a request. `timeout_us` 0 is the node's default; `wire_priority` 0 goes before 1."""

    timeout_us: int = 0
    wire_priority: int = 0
    raw_outputs: bool = False
    binary_outputs: bool = False


@dataclass(frozen=True, slots=True)
class InferRequest:
    """`outputs` in the order asked for; empty for all."""

    inputs: list[Input]
    outputs: list[RequestedOutput] = field(default_factory=list)
    request_id: str = ""
    parameters: Parameters = Parameters()


class Output(NamedTuple):
    """(rows,) float32, or (rows, columns) where the output has several; all finite, contiguous."""

    name: str
    values: npt.NDArray[np.float32]


class InferAnswer(NamedTuple):
    model: str
    version: str
    request_id: str
    outputs: list[Output]
