"""Bodies of REST inference requests and answers: JSON, then binary tensors where the caller wants them. Pure."""

from collections.abc import Sequence
from typing import Any, Never

import orjson

from online.inference.node.oip.datatypes import FP32
from online.inference.node.oip.errors import Invalid, TooLarge
from online.inference.node.oip.messages import (
    MAX_ID_BYTES,
    InferAnswer,
    InferRequest,
    Input,
    Output,
    RequestedOutput,
)
from online.inference.node.oip.parameters import check_tensor_parameters, flag, parse_parameters
from online.inference.node.oip.tensors import checked_datatype, checked_shape, from_bytes, from_json, shown

# JSON is parsed, and written, in one go, during which nothing else of the process runs, its health included.
MAX_JSON_BYTES = 8 << 20
MAX_JSON_VALUES = 1 << 20

_Object = dict[str, Any]


def parse_infer(body: bytes, json_bytes: int | None = None) -> InferRequest:
    """Args:
        json_bytes: `Inference-Header-Content-Length`, None where the whole body is JSON.

    Raises:
        Invalid: whatever is wrong with any bytes.
        TooLarge: over `MAX_JSON_BYTES` of JSON.
    """
    if json_bytes is not None and json_bytes > len(body):
        raise Invalid(f"Inference-Header-Content-Length is {json_bytes}, but the body has {len(body)} bytes")
    view = memoryview(body)
    header, binary = (view, view[:0]) if json_bytes is None else (view[:json_bytes], view[json_bytes:])
    if len(header) > MAX_JSON_BYTES:
        raise TooLarge(
            f"{len(header)} bytes of JSON, the limit is {MAX_JSON_BYTES}: send large tensors as binary data"
        )
    document = parse_object(header)
    parameters = parse_parameters(_object(document, "parameters", "the request"))
    inputs: list[Input] = []
    at = 0
    for item in _objects(document, "inputs"):
        given, at = _input(item, binary, at)
        inputs.append(given)
    if at != len(binary):
        raise Invalid(f"{len(binary) - at} bytes follow the binary data of the inputs")
    outputs = [_requested(item) for item in _objects(document, "outputs")]
    return InferRequest(inputs, outputs, _id(document), parameters)


def parse_object(data: bytes | memoryview) -> _Object:
    """Strict JSON: no NaN, no half of a surrogate pair. Raises Invalid."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Invalid(f"the JSON must be an object, not {shown(document)}")
    return document


def infer_body(answer: InferAnswer, request: InferRequest) -> tuple[list[bytes], int | None]:
    """The parts of the body, and how many bytes of it are JSON where binary data follows.

    Raises:
        TooLarge: over `MAX_JSON_VALUES` values that are to be written as JSON.
    """
    asked = {output.name: output.binary for output in request.outputs}
    described: list[_Object] = []
    parts: list[bytes] = [b""]
    for output in answer.outputs:
        binary = asked.get(output.name)
        if request.parameters.binary_outputs if binary is None else binary:
            parts.append(output.values.astype("<f4", copy=False).tobytes())
            described.append(_described(output) | {"parameters": {"binary_data_size": len(parts[-1])}})
        else:
            described.append(_described(output) | {"data": output.values.ravel()})
    if sum(item["data"].size for item in described if "data" in item) > MAX_JSON_VALUES:
        raise TooLarge(f"over {MAX_JSON_VALUES} values to be answered as JSON: ask for binary data")
    document: _Object = {"model_name": answer.model, "model_version": answer.version, "outputs": described}
    if answer.request_id:
        document["id"] = answer.request_id
    parts[0] = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return parts, len(parts[0]) if len(parts) > 1 else None


def _described(output: Output) -> _Object:
    return {"name": output.name, "datatype": FP32, "shape": list(output.values.shape)}


def _input(item: _Object, binary: memoryview, at: int) -> tuple[Input, int]:
    """The input, and where the binary data of the next begins."""
    name = _name(item, "an input")
    datatype = checked_datatype(item.get("datatype"), name)
    shape = checked_shape(item.get("shape"), name)
    parameters = _object(item, "parameters", f"input {shown(name)}")
    check_tensor_parameters(parameters, f"input {shown(name)}")
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in item:
            raise Invalid(f"input {shown(name)}: neither data nor binary_data_size is given")
        return Input(name, datatype, shape, from_json(item["data"], datatype, shape, name)), at
    if "data" in item:
        raise Invalid(f"input {shown(name)}: both data and binary_data_size are given")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise Invalid(f"input {shown(name)}: binary_data_size must be a whole number from 0, not {shown(size)}")
    if size > len(binary) - at:
        raise Invalid(
            f"input {shown(name)}: binary_data_size is {size}, but only {len(binary) - at} bytes are left"
        )
    return Input(name, datatype, shape, from_bytes(binary[at : at + size], datatype, shape, name)), at + size


def _requested(item: _Object) -> RequestedOutput:
    name = _name(item, "an output")
    what = f"output {shown(name)}"
    parameters = _object(item, "parameters", what)
    check_tensor_parameters(parameters, what)
    return RequestedOutput(name, flag(parameters, "binary_data", what) if "binary_data" in parameters else None)


def _id(document: _Object) -> str:
    given = document.get("id", "")
    if not isinstance(given, str) or len(given.encode("utf-8")) > MAX_ID_BYTES:
        _bad("id", f"must be text of at most {MAX_ID_BYTES} bytes", given)
    return given


def _name(item: _Object, what: str) -> str:
    name = item.get("name")
    if not isinstance(name, str):
        _bad(f"name of {what}", "must be text", name)
    return name


def _object(document: _Object, field: str, what: str) -> _Object:
    found = document.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        _bad(f"{field} of {what}", "must be an object", found)
    return found


def _objects(document: _Object, field: str) -> Sequence[_Object]:
    found = document.get(field)
    if found is None:
        return ()
    if not isinstance(found, list) or any(not isinstance(item, dict) for item in found):
        _bad(field, "must be a list of objects", found)
    return found


def _bad(field: str, wanted: str, given: object) -> Never:
    raise Invalid(f"{field} {wanted}, not {shown(given)}")
