"""Whatever bytes arrive, the decoders give a request or the declared error, and nothing else."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from online.inference.node.oip import grpc_codec, rest_codec
from online.inference.node.oip import open_inference_pb2 as pb
from online.inference.node.oip.errors import ProtocolError, TooLarge
from online.inference.node.oip.inputs import program_groups
from online.inference.node.oip.messages import InferRequest
from online.inference.node.oip.rest_body import accepted_encoding, deflate, inflate
from schemas.features import FeatureTransform
from schemas.manifest import Manifest
from schemas.shapes import InputShapes

GOLDEN = Path(__file__).parents[1] / "contracts" / "golden" / "manifest.json"
MANIFEST = Manifest.model_validate_json(GOLDEN.read_bytes())
TRANSFORM = FeatureTransform(MANIFEST)
SHAPES = InputShapes(MANIFEST)

NAMES = st.sampled_from([*(tensor.name for tensor in MANIFEST.inputs), *MANIFEST.feature_names, "other"])
DATATYPES = st.sampled_from(["FP32", "FP64", "FP16", "INT64", "INT8", "UINT64", "BOOL", "BYTES", "BF16"])
SMALL = st.integers(min_value=-1, max_value=4)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from(["DL", "UA"])
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of these fields, any of which may be missing, or be something else altogether."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(value, value, value, JSON) for name, value in fields.items()}
    )


INPUTS = objects(
    name=NAMES,
    datatype=DATATYPES,
    shape=st.lists(SMALL, max_size=3) | st.just([1 << 40, 1 << 40]),
    data=st.lists(PLAIN | st.lists(PLAIN, max_size=3), max_size=6),
    parameters=objects(binary_data_size=st.integers(-1, 40), shared_memory_region=st.text(max_size=3)),
)
REQUESTS = objects(
    id=st.text(max_size=5),
    inputs=st.lists(INPUTS, max_size=4),
    outputs=st.lists(objects(name=NAMES, parameters=objects(binary_data=st.booleans())), max_size=3),
    parameters=objects(
        timeout=st.integers(), priority=st.integers(), raw_outputs=st.booleans(), sequence_id=SMALL
    ),
)


def check(request: InferRequest) -> None:
    """Its inputs give tensors that the worker takes, all finite, or the declared error."""
    try:
        groups = program_groups(MANIFEST, TRANSFORM, request.inputs)
    except ProtocolError:
        return
    for group in groups:
        assert SHAPES.problem(group.tensors, len(group.tensors[0])) is None
        assert all(np.isfinite(tensor).all() for tensor in group.tensors)


def parse(body: bytes, json_bytes: int | None) -> None:
    try:
        request = rest_codec.parse_infer(body, json_bytes)
    except ProtocolError:
        return
    check(request)


@given(body=st.binary(max_size=200), json_bytes=st.none() | st.integers(0, 250))
def test_any_bytes_by_rest(body: bytes, json_bytes: int | None) -> None:
    parse(body, json_bytes)


@settings(max_examples=200)
@given(document=REQUESTS, binary=st.binary(max_size=60), lie=st.integers(-2, 2))
def test_any_json_by_rest(document: dict[str, Any], binary: bytes, lie: int) -> None:
    header = json.dumps(document).encode("utf-8", "surrogatepass")
    parse(header + binary, len(header) + lie if binary or lie else None)


@given(data=st.binary(max_size=200), encoding=st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_as_compressed(data: bytes, encoding: str) -> None:
    with suppress(ProtocolError):
        assert len(inflate(data, encoding, 1000)) <= 1000


@given(data=st.binary(max_size=5000), encoding=st.sampled_from(["gzip", "deflate"]))
def test_what_was_deflated_is_inflated_within_the_limit(data: bytes, encoding: str) -> None:
    packed = deflate(data, encoding)
    try:
        assert inflate(packed, encoding, 1000) == data
        assert len(data) <= 1000
    except TooLarge:
        assert len(data) > 1000


@given(st.text(max_size=30) | st.from_regex(r"(gzip|deflate|br|\*)(;q=[0-9.]{0,4})?(, ?(gzip|deflate);q=0)?"))
def test_any_accept_encoding(accept: str) -> None:
    assert accepted_encoding(accept) in (None, "gzip", "deflate")


INFER_PARAMETERS = st.dictionaries(
    st.sampled_from(["timeout", "priority", "raw_outputs", "sequence_id", "classification"]),
    st.builds(pb.InferParameter, int64_param=st.integers(-2, 10))
    | st.builds(pb.InferParameter, bool_param=st.booleans())
    | st.just(pb.InferParameter()),
    max_size=2,
)
CONTENTS = st.builds(
    pb.InferTensorContents,
    int_contents=st.lists(st.integers(-300, 300), max_size=4),
    int64_contents=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4),
    uint_contents=st.lists(st.integers(0, 300), max_size=4),
    fp32_contents=st.lists(st.floats(width=32), max_size=4),
    fp64_contents=st.lists(st.floats(), max_size=4),
    bytes_contents=st.lists(st.binary(max_size=3) | st.just(b"DL"), max_size=4),
)
MESSAGES = st.builds(
    pb.ModelInferRequest,
    inputs=st.lists(
        st.builds(
            pb.ModelInferRequest.InferInputTensor,
            name=NAMES,
            datatype=DATATYPES,
            shape=st.lists(SMALL, max_size=3) | st.just([1 << 40, 1 << 40]),
            contents=st.none() | CONTENTS,
            parameters=INFER_PARAMETERS,
        ),
        max_size=4,
    ),
    raw_input_contents=st.lists(st.binary(max_size=24), max_size=3),
    parameters=INFER_PARAMETERS,
)


@settings(max_examples=150)
@given(MESSAGES)
def test_any_message_by_grpc(message: pb.ModelInferRequest) -> None:
    try:
        request = grpc_codec.parse_infer(message)
    except ProtocolError:
        return
    check(request)


@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=5), st.booleans())
def test_records_and_tensors_of_the_same_rows_are_the_same(distances: list[float], by_message: bool) -> None:
    """What the transform gives, sent as tensors, is what the records give: through both decoders."""
    rows = len(distances)
    records = [{"distance": abs(x) * 100, "hour": 5, "carrier": "DL"} for x in distances]
    expected = TRANSFORM.records(records).tensors
    columns = {"distance": "FP64", "hour": "INT8", "carrier": "BYTES"}
    data = {name: [record[name] for record in records] for name in columns}
    if by_message:
        contents = {
            "distance": pb.InferTensorContents(fp64_contents=data["distance"]),
            "hour": pb.InferTensorContents(int_contents=data["hour"]),
            "carrier": pb.InferTensorContents(bytes_contents=[b"DL"] * rows),
        }
        tensor = pb.ModelInferRequest.InferInputTensor
        request = grpc_codec.parse_infer(
            pb.ModelInferRequest(
                inputs=[
                    tensor(name=name, datatype=datatype, shape=[rows, 1], contents=contents[name])
                    for name, datatype in columns.items()
                ]
            )
        )
    else:
        inputs = [
            {"name": name, "datatype": datatype, "shape": [rows], "data": data[name]}
            for name, datatype in columns.items()
        ]
        request = rest_codec.parse_infer(json.dumps({"inputs": inputs}).encode())
    (group,) = program_groups(MANIFEST, TRANSFORM, request.inputs)
    for tensor_spec, found in zip(MANIFEST.inputs, group.tensors, strict=True):
        np.testing.assert_array_equal(found, expected[tensor_spec.name])
