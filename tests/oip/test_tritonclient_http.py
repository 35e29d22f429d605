"""The real `tritonclient` over HTTP, the synchronous and the asynchronous one."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from schemas.bundle import Bundle
from schemas.wire import Tensor
from tests.oip.conftest import MAX_BATCH_ROWS, RECORDS, random_rows, stored, stored_of_records
from tests.support.inference import NodeProcess


@pytest.fixture
def client(node: NodeProcess) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(node.http_url.removeprefix("http://"), concurrency=4) as connected:
        yield connected


@pytest.fixture
async def aio_client(node: NodeProcess) -> AsyncIterator[triton_aio.InferenceServerClient]:
    async with triton_aio.InferenceServerClient(node.http_url.removeprefix("http://")) as connected:
        yield connected


def inputs_of(tensors: list[Tensor], binary: bool = True) -> list[triton.InferInput]:
    inputs = []
    for name, datatype, tensor in zip(("numbers", "airline"), ("FP32", "INT64"), tensors, strict=True):
        given = triton.InferInput(name, list(tensor.shape), datatype)
        given.set_data_from_numpy(tensor, binary_data=binary)
        inputs.append(given)
    return inputs


def record_inputs(records: list[dict[str, Any]], kind: type[np.generic], binary: bool) -> list[triton.InferInput]:
    columns = {
        "distance": ("FP64" if kind is np.float64 else "FP32", np.array([r["distance"] for r in records], kind)),
        "delay": ("INT32", np.array([r["delay"] for r in records], np.int32)),
        "airline": ("BYTES", np.array([r["airline"].encode() for r in records], np.object_)),
    }
    inputs = []
    for name, (datatype, column) in columns.items():
        given = triton.InferInput(name, list(column.shape), datatype)
        given.set_data_from_numpy(column, binary_data=binary)
        inputs.append(given)
    return inputs


@pytest.mark.parametrize("rows", [1, 7, 5 * MAX_BATCH_ROWS + 3])
@pytest.mark.parametrize("binary", [True, False])
def test_rows(client: triton.InferenceServerClient, bundle: Bundle, rows: int, binary: bool) -> None:
    tensors = random_rows(rows, seed=rows)
    outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("minutes", "late")]
    result = client.infer("tiny", inputs_of(tensors, binary), "1", outputs, request_id="r-1")
    answer = result.get_response()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("r-1", "tiny", "1")
    assert [output["name"] for output in answer["outputs"]] == ["minutes", "late"]
    expected = stored(bundle, tensors)
    np.testing.assert_allclose(result.as_numpy("late"), expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(result.as_numpy("minutes"), expected[:, 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_records(
    client: triton.InferenceServerClient, bundle: Bundle, kind: type[np.generic], binary: bool
) -> None:
    result = client.infer("tiny", record_inputs(RECORDS, kind, binary), "1")
    expected = stored_of_records(bundle, RECORDS)
    np.testing.assert_allclose(result.as_numpy("late"), expected[:, 0], rtol=1e-5)


@pytest.mark.parametrize("there", [None, "gzip", "deflate"])
@pytest.mark.parametrize("back", [None, "gzip", "deflate"])
def test_compression(
    client: triton.InferenceServerClient, bundle: Bundle, there: str | None, back: str | None
) -> None:
    tensors = random_rows(5)
    result = client.infer(
        "tiny",
        inputs_of(tensors),
        "1",
        request_compression_algorithm=there,
        response_compression_algorithm=back,
        priority=2,
        timeout=10_000_000,
    )
    np.testing.assert_allclose(result.as_numpy("late"), stored(bundle, tensors)[:, 0], rtol=1e-5)


def test_errors_have_tritons_status(client: triton.InferenceServerClient) -> None:
    good = inputs_of(random_rows(1))
    wrong = triton.InferInput("numbers", [1, 2], "FP64")
    wrong.set_data_from_numpy(np.zeros((1, 2)))
    wide = triton.InferInput("numbers", [1, 3], "FP32")
    wide.set_data_from_numpy(np.zeros((1, 3), np.float32))
    unknown = triton.InferRequestedOutput("x")
    for status, told, arguments in (
        ("404", "unknown model", {"model_name": "none", "inputs": good}),
        ("404", "no version", {"model_name": "tiny", "model_version": "9", "inputs": good}),
        ("400", "airline is missing", {"model_name": "tiny", "inputs": good[:1]}),
        ("400", "must be FP32", {"model_name": "tiny", "inputs": [wrong, good[1]]}),
        ("400", r"numbers must be \(1, 2\)", {"model_name": "tiny", "inputs": [wide, good[1]]}),
        ("400", "unknown output", {"model_name": "tiny", "inputs": good, "outputs": [unknown]}),
        ("400", "sequences", {"model_name": "tiny", "inputs": good, "sequence_id": 4, "sequence_start": True}),
        ("503", "time", {"model_name": "tiny", "inputs": good, "timeout": 1000}),
    ):
        with pytest.raises(InferenceServerException, match=told) as caught:
            client.infer(**arguments)
        assert caught.value.status() == status


def test_what_the_server_tells(client: triton.InferenceServerClient, bundle: Bundle) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny")
    assert client.is_model_ready("tiny", "1")
    assert not client.is_model_ready("tiny", "9")
    assert not client.is_model_ready("none")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("tiny", "1")
    assert metadata["versions"] == ["1", "2"]
    assert metadata["inputs"] == [
        {"name": "numbers", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "airline", "datatype": "INT64", "shape": [-1, 1]},
    ]
    assert metadata["outputs"] == [{"name": n, "datatype": "FP32", "shape": [-1]} for n in ("late", "minutes")]
    assert [feature["optional"] for feature in metadata["features"]] == [False, True, True]
    config = client.get_model_config("tiny", "1")
    assert config["max_batch_size"] == MAX_BATCH_ROWS
    assert config["input"][0] == {"name": "numbers", "data_type": "TYPE_FP32", "dims": [2]}
    statistics = client.get_inference_statistics("tiny", "1")["model_stats"]
    assert [(entry["name"], entry["version"]) for entry in statistics] == [("tiny", "1")]
    index = {(entry["name"], entry["version"]): entry["state"] for entry in client.get_model_repository_index()}
    assert index["tiny", "1"] == index["tiny", "2"] == "READY"


async def test_the_asynchronous_client(aio_client: triton_aio.InferenceServerClient, bundle: Bundle) -> None:
    tensors = random_rows(9)
    assert await aio_client.is_server_ready()
    assert (await aio_client.get_model_metadata("tiny", "1"))["name"] == "tiny"
    result = await aio_client.infer("tiny", inputs_of(tensors), "1", request_id="x")
    np.testing.assert_allclose(result.as_numpy("late"), stored(bundle, tensors)[:, 0], rtol=1e-5)
    with pytest.raises(InferenceServerException, match="unknown model"):
        await aio_client.infer("none", inputs_of(tensors))


def test_texts(client: triton.InferenceServerClient) -> None:
    texts = np.array([b"delay weather", "é".encode(), b"gate " * 200], np.object_)
    given = triton.InferInput("text", [3], "BYTES")
    given.set_data_from_numpy(texts)
    together = client.infer("text", [given]).as_numpy("late")
    broken = triton.InferInput("text", [1], "BYTES")
    broken.set_data_from_numpy(np.array([b"\xff\xfe"], np.object_))
    assert together.shape == (3,)
    with pytest.raises(InferenceServerException, match="row 0 is not UTF-8"):
        client.infer("text", [broken])
