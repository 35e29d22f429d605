"""gRPC messages of inference to requests, and answers to messages: raw contents always, in output order. Pure."""

from collections.abc import Mapping
from typing import Any

from online.inference.node.oip import open_inference_pb2 as pb
from online.inference.node.oip.datatypes import BYTES, FP32
from online.inference.node.oip.errors import Invalid, TooLarge
from online.inference.node.oip.messages import MAX_ID_BYTES, InferAnswer, InferRequest, Input, RequestedOutput
from online.inference.node.oip.parameters import check_tensor_parameters, parse_parameters
from online.inference.node.oip.tensors import (
    MAX_OBJECTS,
    Values,
    checked_datatype,
    checked_shape,
    from_byte_strings,
    from_bytes,
    from_list,
    shown,
)

_Tensor = pb.ModelInferRequest.InferInputTensor

# The list of typed contents that holds a datatype. FP16 has none.
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}


def parse_infer(message: pb.ModelInferRequest) -> InferRequest:
    """Raises Invalid, TooLarge."""
    if len(message.id.encode("utf-8")) > MAX_ID_BYTES:
        raise Invalid(f"id must be text of at most {MAX_ID_BYTES} bytes")
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise Invalid(f"{len(raw)} raw_input_contents for {len(message.inputs)} inputs")
    inputs = [_input(tensor, raw[place] if raw else None) for place, tensor in enumerate(message.inputs)]
    outputs = [_requested(output) for output in message.outputs]
    return InferRequest(inputs, outputs, message.id, parse_parameters(plain(message.parameters)))


def infer_message(answer: InferAnswer) -> pb.ModelInferResponse:
    tensor = pb.ModelInferResponse.InferOutputTensor
    return pb.ModelInferResponse(
        model_name=answer.model,
        model_version=answer.version,
        id=answer.request_id,
        outputs=[
            tensor(name=output.name, datatype=FP32, shape=list(output.values.shape)) for output in answer.outputs
        ],
        raw_output_contents=[output.values.astype("<f4", copy=False).tobytes() for output in answer.outputs],
    )


def plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a map of `InferParameter` or `ModelRepositoryParameter`; those that hold none are left out."""
    found: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if (kind := parameter.WhichOneof("parameter_choice")) is not None:
            found[name] = getattr(parameter, kind)
    return found


def _input(tensor: _Tensor, raw: bytes | None) -> Input:
    name = tensor.name
    datatype, shape = checked_datatype(tensor.datatype, name), checked_shape(list(tensor.shape), name)
    check_tensor_parameters(plain(tensor.parameters), f"input {shown(name)}")
    if raw is None:
        return Input(name, datatype, shape, _typed(tensor, datatype, shape))
    if tensor.HasField("contents"):
        raise Invalid(f"input {shown(name)}: both contents and raw_input_contents are given")
    return Input(name, datatype, shape, from_bytes(memoryview(raw), datatype, shape, name))


def _typed(tensor: _Tensor, datatype: str, shape: tuple[int, ...]) -> Values:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise Invalid(f"input {shown(tensor.name)}: {datatype} is taken by raw_input_contents only")
    found = getattr(tensor.contents, field)
    if len(found) > MAX_OBJECTS:
        raise TooLarge(f"input {shown(tensor.name)}: over {MAX_OBJECTS} typed elements: use raw_input_contents")
    elements = list(found)
    if datatype == BYTES:
        return from_byte_strings(elements, shape, tensor.name)
    return from_list(elements, datatype, shape, tensor.name)


def _requested(output: pb.ModelInferRequest.InferRequestedOutputTensor) -> RequestedOutput:
    check_tensor_parameters(plain(output.parameters), f"output {shown(output.name)}")
    return RequestedOutput(output.name)
