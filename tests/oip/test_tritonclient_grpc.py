"""The real `tritonclient` over gRPC, the synchronous and the asynchronous one; raw contents and typed."""

import asyncio
import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from schemas.bundle import Bundle
from schemas.wire import Tensor
from tests.oip.conftest import MAX_BATCH_ROWS, MAX_BODY_BYTES, RECORDS, random_rows, stored, stored_of_records
from tests.support.inference import NodeProcess


@pytest.fixture
def client(node: NodeProcess) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(node.grpc_address) as connected:
        yield connected


@pytest.fixture
async def aio_client(node: NodeProcess) -> AsyncIterator[triton_aio.InferenceServerClient]:
    async with triton_aio.InferenceServerClient(node.grpc_address) as connected:
        yield connected


def inputs_of(tensors: list[Tensor]) -> list[triton.InferInput]:
    inputs = []
    for name, datatype, tensor in zip(("numbers", "airline"), ("FP32", "INT64"), tensors, strict=True):
        given = triton.InferInput(name, list(tensor.shape), datatype)
        given.set_data_from_numpy(tensor)
        inputs.append(given)
    return inputs


def column(name: str, datatype: str, values: np.ndarray[Any, Any]) -> triton.InferInput:
    given = triton.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values)
    return given


@pytest.mark.parametrize("rows", [1, 7, 5 * MAX_BATCH_ROWS + 3])
def test_rows(client: triton.InferenceServerClient, bundle: Bundle, rows: int) -> None:
    tensors = random_rows(rows, seed=rows)
    outputs = [triton.InferRequestedOutput(name) for name in ("minutes", "late")]
    result = client.infer(
        "tiny", inputs_of(tensors), "1", outputs, request_id="r-1", priority=1, timeout=9_000_000
    )
    answer = result.get_response()
    assert (answer.id, answer.model_name, answer.model_version) == ("r-1", "tiny", "1")
    assert [output.name for output in answer.outputs] == ["minutes", "late"]
    assert [len(raw) for raw in answer.raw_output_contents] == [4 * rows, 4 * rows]
    expected = stored(bundle, tensors)
    np.testing.assert_allclose(result.as_numpy("late"), expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(result.as_numpy("minutes"), expected[:, 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("datatype", "kind"),
    [
        ("FP16", np.float16),
        ("FP32", np.float32),
        ("FP64", np.float64),
        *((f"INT{bits}", np.dtype(f"i{bits // 8}").type) for bits in (8, 16, 32, 64)),
        *((f"UINT{bits}", np.dtype(f"u{bits // 8}").type) for bits in (8, 16, 32, 64)),
    ],
)
def test_records_of_every_number(
    client: triton.InferenceServerClient, bundle: Bundle, datatype: str, kind: type[np.generic]
) -> None:
    records = [{**record, "distance": float(row)} for row, record in enumerate(RECORDS[:6])]
    inputs = [
        column("distance", datatype, np.array([record["distance"] for record in records], kind)),
        column("delay", "FP32", np.array([[record["delay"]] for record in records], np.float32)),
        column("airline", "BYTES", np.array([record["airline"] for record in records], np.object_)),
    ]
    found = client.infer("tiny", inputs, "1").as_numpy("late")
    np.testing.assert_allclose(found, stored_of_records(bundle, records)[:, 0], rtol=1e-5)


def test_typed_contents(node: NodeProcess, bundle: Bundle) -> None:
    tensors = random_rows(2)
    tensor = service_pb2.ModelInferRequest.InferInputTensor
    request = service_pb2.ModelInferRequest(
        model_name="tiny",
        model_version="1",
        inputs=[
            tensor(name="numbers", datatype="FP32", shape=[2, 2], contents={"fp32_contents": tensors[0].ravel()}),
            tensor(
                name="airline", datatype="INT64", shape=[2, 1], contents={"int64_contents": tensors[1].ravel()}
            ),
        ],
    )
    with grpc.insecure_channel(node.grpc_address) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        found = np.frombuffer(call(request, timeout=10).raw_output_contents[0], "<f4")
        np.testing.assert_allclose(found, stored(bundle, tensors)[:, 0], rtol=1e-5)
        for field, datatype, told in (
            ("fp64_contents", "FP32", "0 elements"),
            ("int_contents", "INT8", "out of the range of INT8"),
            ("fp32_contents", "FP16", "raw_input_contents only"),
        ):
            request.inputs[0].CopyFrom(
                tensor(name="numbers", datatype=datatype, shape=[2, 2], contents={field: [300, 1, 2, 3]})
            )
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=10)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert told in caught.value.details()
        bare = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            bare(b"\xff\xff\xff", timeout=10)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_errors_have_tritons_status(client: triton.InferenceServerClient) -> None:
    good = inputs_of(random_rows(1))
    wrong = column("numbers", "FP64", np.zeros((1, 2)))
    wide = column("numbers", "FP32", np.zeros((1, 3), np.float32))
    infinite = [column("x", "FP32", np.zeros((1, 1), np.float32))]
    large = [column("x", "FP32", np.ones((MAX_BODY_BYTES // 4 + 1, 1), np.float32))]
    for status, told, arguments in (
        ("NOT_FOUND", "unknown model", {"model_name": "none", "inputs": good}),
        ("NOT_FOUND", "no version", {"model_name": "tiny", "model_version": "9", "inputs": good}),
        ("INVALID_ARGUMENT", "airline is missing", {"model_name": "tiny", "inputs": good[:1]}),
        ("INVALID_ARGUMENT", "must be FP32", {"model_name": "tiny", "inputs": [wrong, good[1]]}),
        ("INVALID_ARGUMENT", "numbers must be (1, 2)", {"model_name": "tiny", "inputs": [wide, good[1]]}),
        ("INVALID_ARGUMENT", "sequences", {"model_name": "tiny", "inputs": good, "sequence_id": 4}),
        ("INVALID_ARGUMENT", "unknown output", {"outputs": [triton.InferRequestedOutput("x")], "inputs": good}),
        (
            "INVALID_ARGUMENT",
            "classification",
            {"outputs": [triton.InferRequestedOutput("late", class_count=1)], "inputs": good},
        ),
        ("UNAVAILABLE", "time", {"inputs": good, "timeout": 1000}),
        ("INTERNAL", "not finite: log_x of row 0", {"model_name": "log", "inputs": infinite}),
        ("RESOURCE_EXHAUSTED", "", {"model_name": "log", "inputs": large}),
    ):
        with pytest.raises(InferenceServerException) as caught:
            client.infer(**{"model_name": "tiny", **arguments})
        assert caught.value.status() == f"StatusCode.{status}", caught.value
        assert told in caught.value.message()


def test_what_the_server_tells(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny", "1")
    assert not client.is_model_ready("none")
    assert "binary_tensor_data" in client.get_server_metadata().extensions
    metadata = client.get_model_metadata("tiny", "1")
    assert [(i.name, i.datatype, list(i.shape)) for i in metadata.inputs] == [
        ("numbers", "FP32", [-1, 2]),
        ("airline", "INT64", [-1, 1]),
    ]
    assert list(metadata.versions) == ["1", "2"]
    config = client.get_model_config("tiny", "1", as_json=True)["config"]
    assert config["max_batch_size"] == MAX_BATCH_ROWS
    assert config["input"][1]["data_type"] == "TYPE_INT64"
    assert client.get_inference_statistics("tiny", "1").model_stats[0].version == "1"
    index = client.get_model_repository_index()
    assert {model.version for model in index.models if model.name == "tiny" and model.state == "READY"} == {
        "1",
        "2",
    }


def test_a_stream_answers_each_request_in_order_and_errors_among_them(
    client: triton.InferenceServerClient, bundle: Bundle
) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    tensors = random_rows(12)
    for row in range(12):
        model = "none" if row == 5 else "tiny"
        client.async_stream_infer(model, inputs_of([t[row : row + 1] for t in tensors]), "1", request_id=str(row))
    found = [answers.get(timeout=20) for _ in range(12)]
    client.stop_stream()
    expected = stored(bundle, tensors)
    for row, (result, error) in enumerate(found):
        if row == 5:
            assert "unknown model" in error.message()
            continue
        assert error is None
        assert result.get_response().id == str(row)
        np.testing.assert_allclose(result.as_numpy("late"), expected[row : row + 1, 0], rtol=1e-5)


async def test_the_asynchronous_client(aio_client: triton_aio.InferenceServerClient, bundle: Bundle) -> None:
    tensors = random_rows(20)
    assert await aio_client.is_server_ready()
    results = await asyncio.gather(
        *(aio_client.infer("tiny", inputs_of([t[row : row + 1] for t in tensors]), "1") for row in range(20))
    )
    found = np.concatenate([result.as_numpy("late") for result in results])
    np.testing.assert_allclose(found, stored(bundle, tensors)[:, 0], rtol=1e-5)
    with pytest.raises(InferenceServerException, match="unknown model"):
        await aio_client.infer("none", inputs_of(tensors))
