"""Bodies of the Open Inference Protocol's `infer` over HTTP: JSON, or JSON followed by binary tensors. Pure.

Source: Open Inference Protocol v2 (inference) and its binary tensor data extension.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from schemas.wire import Float32Array, Tensor

BINARY_EXTENSION = "binary_tensor_data"
HEADER_LENGTH = "Inference-Header-Content-Length"

_NAMES = {np.dtype("<f4"): "FP32", np.dtype("<i8"): "INT64"}
# What an output may be; all are brought to float32.
_TYPES: Mapping[str, np.dtype[Any]] = {
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
}


class BadAnswer(ValueError):
    """The server's answer is not what was asked for; the message says how."""


class Body(NamedTuple):
    content: bytes
    headers: Mapping[str, str]


def request_body(
    names: Sequence[str],
    tensors: Sequence[Tensor],
    wanted: Sequence[str],
    timeout_us: int,
    binary: bool,
    more: Mapping[str, object] | None = None,
) -> Body:
    """An infer request.

    Args:
        names: of the input tensors, as the server calls them.
        wanted: output tensors to ask for; none: all.
        timeout_us: after which nobody waits for the answer.
        more: parameters of the request beside `timeout`, such as `priority`.
    """
    inputs: list[dict[str, object]] = []
    parts: list[bytes] = []
    for name, tensor in zip(names, tensors, strict=True):
        told: dict[str, object] = {"name": name, "shape": tensor.shape, "datatype": _NAMES[tensor.dtype]}
        if binary:
            parts.append(np.ascontiguousarray(tensor).tobytes())
            told["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            told["data"] = np.ascontiguousarray(tensor).ravel()
        inputs.append(told)
    parameters: dict[str, object] = {"timeout": timeout_us, **(more or {})}
    if binary:
        parameters["binary_data_output"] = True
    document: dict[str, object] = {"inputs": inputs, "parameters": parameters}
    if wanted:
        own = {"parameters": {"binary_data": True}} if binary else {}
        document["outputs"] = [{"name": name, **own} for name in wanted]
    head = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    if not binary:
        return Body(head, {"Content-Type": "application/json"})
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(len(head))}
    return Body(b"".join((head, *parts)), headers)


def answer_outputs(
    content: bytes,
    header_length: str | None,
    rows: int,
    wanted: Sequence[str],
    outputs: Sequence[str],
    width: int,
) -> Float32Array:
    """(rows, N) float32 of an answer: one tensor of all columns, or one for each output.

    Args:
        header_length: of the answer, where it has binary tensors.
        wanted: the tensors to take, in order; none: the only one there is, or those named as `outputs`.
        outputs: our names of the outputs.
        width: N, columns of all outputs together.

    Raises:
        BadAnswer: no answer of this kind, or of another shape. Values that are not finite are let through.
    """
    tensors = _tensors(content, header_length)
    names = list(wanted) or (list(tensors) if len(tensors) == 1 else list(outputs))
    if missing := [name for name in names if name not in tensors]:
        raise BadAnswer(f"outputs {missing} are missing; there are {list(tensors)}")
    taken = [tensors[name] for name in names]
    if any(tensor.shape[:1] != (rows,) for tensor in taken):
        raise BadAnswer(f"outputs of shapes {[tensor.shape for tensor in taken]} for {rows} rows")
    columns = np.concatenate([tensor.reshape(rows, -1) for tensor in taken], axis=1)
    if columns.shape[1] != width:
        raise BadAnswer(f"{columns.shape[1]} values a row instead of {width}")
    return columns


def error_text(content: bytes) -> str:
    """What a refusal says, shortened; the body itself where it is not the protocol's error object."""
    try:
        told = orjson.loads(content)["error"]
    except (ValueError, TypeError, KeyError):
        told = content.decode("utf-8", "replace")
    return str(told)[:300]


def _tensors(content: bytes, header_length: str | None) -> dict[str, Float32Array]:
    head, tail = content, memoryview(b"")
    if header_length is not None:
        if not header_length.isdecimal() or int(header_length) > len(content):
            raise BadAnswer(f"{HEADER_LENGTH} {header_length[:20]!r} of {len(content)} bytes")
        head, tail = content[: int(header_length)], memoryview(content)[int(header_length) :]
    told = _json(head).get("outputs")
    if not isinstance(told, list) or not told:
        raise BadAnswer("there are no outputs")
    found: dict[str, Float32Array] = {}
    for output in told:
        name, tensor, used = _tensor(output, tail)
        found[name], tail = tensor, tail[used:]
    if len(tail):
        raise BadAnswer(f"{len(tail)} bytes belong to no output")
    return found


def _json(head: bytes) -> dict[str, Any]:
    try:
        try:
            document = orjson.loads(head)
        except orjson.JSONDecodeError:
            document = json.loads(head)  # some servers write NaN, which strict JSON does not have
    except (ValueError, RecursionError):
        raise BadAnswer("not JSON") from None
    if not isinstance(document, dict):
        raise BadAnswer("not a JSON object")
    return document


def _tensor(output: object, tail: memoryview) -> tuple[str, Float32Array, int]:
    """Name, values in their shape, and how many binary bytes they took."""
    if not isinstance(output, dict) or not isinstance(name := output.get("name"), str):
        raise BadAnswer("an output without a name")
    shape, datatype, parameters = output.get("shape"), output.get("datatype"), output.get("parameters")
    if (
        not isinstance(shape, list)
        or not shape
        or not all(type(extent) is int and extent >= 0 for extent in shape)
    ):
        raise BadAnswer(f"output {name} has shape {shape}")
    if (dtype := _TYPES.get(str(datatype))) is None:
        raise BadAnswer(f"output {name} is {datatype}, which is no number that float32 could hold")
    used = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    try:
        if isinstance(used, int):
            values: np.ndarray[Any, np.dtype[Any]] = np.frombuffer(_cut(tail, used), dtype)
        else:
            # A null, by which strict JSON servers write NaN, becomes NaN.
            values = np.array(output.get("data"), dtype=np.float64).ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            return name, values.astype(np.float32).reshape(shape), used if isinstance(used, int) else 0
    except (ValueError, TypeError, OverflowError):
        raise BadAnswer(f"the data of output {name} is not {shape} {datatype}") from None


def _cut(tail: memoryview, size: int) -> memoryview:
    if not 0 <= size <= len(tail):
        raise ValueError(f"{size} bytes of {len(tail)}")
    return tail[:size]
