"""REST by hand: JSON and binary, compressed and not, by tensors and by records."""

import gzip
import zlib
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from schemas.bundle import Bundle
from tests.oip.conftest import RECORDS, json_inputs, random_rows, stored, stored_of_records
from tests.support.oip import INFER, LENGTH, outputs_of, post


async def test_json_in_and_out(http: httpx.AsyncClient, bundle: Bundle) -> None:
    tensors = random_rows(3)
    answer = await post(http, {"id": "a/b", "inputs": json_inputs(tensors)})
    expected = stored(bundle, tensors)
    document = answer.json()
    assert (document["id"], document["model_name"], document["model_version"]) == ("a/b", "tiny", "1")
    assert [(o["name"], o["datatype"], o["shape"]) for o in document["outputs"]] == [
        ("late", "FP32", [3]),
        ("minutes", "FP32", [3]),
    ]
    found = outputs_of(answer)
    np.testing.assert_allclose(found["late"], expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(found["minutes"], expected[:, 1], rtol=1e-5)


async def test_raw_outputs_are_the_programs_own(http: httpx.AsyncClient, bundle: Bundle) -> None:
    tensors = random_rows(2)
    answer = await post(http, {"inputs": json_inputs(tensors), "parameters": {"raw_outputs": True}})
    raw = stored(bundle, tensors, raw=True)
    np.testing.assert_allclose(outputs_of(answer)["late"], raw[:, 0], rtol=1e-5)
    assert "id" not in answer.json()


async def test_without_a_version_the_newest_answers(http: httpx.AsyncClient, other_bundle: Bundle) -> None:
    tensors = random_rows(2)
    answer = await post(http, {"inputs": json_inputs(tensors)}, "/v2/models/tiny/infer")
    assert answer.json()["model_version"] == "2"
    np.testing.assert_allclose(outputs_of(answer)["late"], stored(other_bundle, tensors)[:, 0], rtol=1e-5)


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT16", "INT64", "UINT8", "UINT32"])
async def test_records_by_their_feature_names(http: httpx.AsyncClient, bundle: Bundle, datatype: str) -> None:
    records = [{**record, "distance": float(int(record["distance"]) % 200)} for record in RECORDS[:5]]
    inputs = [
        {"name": "airline", "datatype": "BYTES", "shape": [5], "data": [record["airline"] for record in records]},
        {"name": "distance", "datatype": datatype, "shape": [5, 1], "data": [int(r["distance"]) for r in records]},
    ]
    answer = await post(http, {"inputs": inputs})
    # `delay` is left out, which its default allows.
    expected = stored_of_records(bundle, [{**record, "delay": None} for record in records])
    np.testing.assert_allclose(outputs_of(answer)["late"], expected[:, 0], rtol=1e-5)


async def test_outputs_are_answered_in_the_order_asked_for(http: httpx.AsyncClient) -> None:
    inputs = json_inputs(random_rows(2))
    both = await post(http, {"inputs": inputs, "outputs": [{"name": "minutes"}, {"name": "late"}]})
    one = await post(http, {"inputs": inputs, "outputs": [{"name": "minutes"}]})
    assert list(outputs_of(both)) == ["minutes", "late"]
    assert list(outputs_of(one)) == ["minutes"]
    np.testing.assert_array_equal(outputs_of(both)["minutes"], outputs_of(one)["minutes"])


async def test_binary_inputs_and_some_binary_outputs(http: httpx.AsyncClient, bundle: Bundle) -> None:
    tensors = random_rows(4)
    document = {
        "inputs": [
            {"name": "airline", "datatype": "INT64", "shape": [4, 1], "parameters": {"binary_data_size": 32}},
            {"name": "numbers", "datatype": "FP32", "shape": [4, 2], "parameters": {"binary_data_size": 32}},
        ],
        "outputs": [{"name": "late"}, {"name": "minutes", "parameters": {"binary_data": False}}],
        "parameters": {"binary_data_output": True},
    }
    header = orjson.dumps(document)
    body = header + tensors[1].tobytes() + tensors[0].tobytes()
    answer = await http.post(
        INFER, content=body, headers={LENGTH: str(len(header)), "accept-encoding": "identity"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers[LENGTH])
    described = orjson.loads(answer.content[:length])["outputs"]
    assert described[0]["parameters"] == {"binary_data_size": 16}
    assert "data" not in described[0]
    expected = stored(bundle, tensors)
    np.testing.assert_allclose(np.frombuffer(answer.content[length:], "<f4"), expected[:, 0], rtol=1e-5)
    np.testing.assert_allclose(described[1]["data"], expected[:, 1], rtol=1e-5)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_compressed_both_ways(http: httpx.AsyncClient, bundle: Bundle, encoding: str, pack: Any) -> None:
    tensors = random_rows(3)
    content = pack(orjson.dumps({"inputs": json_inputs(tensors)}))
    headers = {"Content-Encoding": encoding, "Accept-Encoding": encoding}
    answer = await http.post(INFER, content=content, headers=headers)
    assert answer.headers["content-encoding"] == encoding
    np.testing.assert_allclose(outputs_of(answer)["late"], stored(bundle, tensors)[:, 0], rtol=1e-5)


async def test_texts_of_any_length_in_one_request(http: httpx.AsyncClient) -> None:
    """Each as it is alone: rows are grouped by padded length, and joined again in order."""

    async def ask(*texts: str) -> list[float]:
        inputs = [{"name": "text", "datatype": "BYTES", "shape": [len(texts)], "data": texts}]
        return list(outputs_of(await post(http, {"inputs": inputs}, "/v2/models/text/infer"))["minutes"])

    texts = ["delay weather", "", "gate " * 300, "late", "weather " * 20]
    together = await ask(*texts)
    alone = [(await ask(text))[0] for text in texts]
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    assert len({round(float(value), 4) for value in alone}) > 2
