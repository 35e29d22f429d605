"""Vectors and top-k lists by the public protocol: all columns of the model, one tensor an output."""

from collections.abc import AsyncIterator, Iterator

import httpx
import numpy as np
import orjson
import pytest
from tritonclient.grpc import aio as triton

from runtime.program import load_program
from schemas.bundle import Bundle
from schemas.outputs import calibrate_columns
from tests.support.inference import NodeProcess, address_of
from tests.support.list_bundles import topics_bundle
from tests.support.oip import error_of, post

PATH = "/v2/models/topics/infer"
XY = np.array([[1.0, 2.0], [-3.0, 0.0], [5.0, 1.0]], np.float32)
INPUT = {"name": "xy", "datatype": "FP32", "shape": [3, 2], "data": XY.tolist()}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return topics_bundle(tmp_path_factory.mktemp("oip-lists") / "topics")


@pytest.fixture
async def http(listing: NodeProcess, topics: Bundle) -> AsyncIterator[httpx.AsyncClient]:
    await listing.ready(topics.digest)
    async with httpx.AsyncClient(base_url=listing.http_url, timeout=30.0) as client:
        yield client


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory, topics: Bundle) -> Iterator[NodeProcess]:
    with NodeProcess.run(tmp_path_factory.mktemp("cache"), [address_of(topics)], [topics.folder.parent]) as node:
        yield node


def columns(topics: Bundle, raw: bool = False) -> np.ndarray:
    found = load_program(topics.folder, topics.manifest)({"xy": XY})
    return found if raw else calibrate_columns(topics.manifest.output, found)


@pytest.mark.parametrize("raw", [False, True])
async def test_all_scores_are_given_in_order_of_the_labels(
    http: httpx.AsyncClient, topics: Bundle, raw: bool
) -> None:
    answer = await post(http, {"inputs": [INPUT], "parameters": {"raw_outputs": raw}}, PATH)
    many, one = answer.json()["outputs"]
    assert (many["name"], many["shape"], one["name"], one["shape"]) == ("topics", [3, 50], "late", [3])
    expected = columns(topics, raw)
    np.testing.assert_allclose(np.array(many["data"], np.float32).reshape(3, 50), expected[:, :50], atol=1e-6)
    np.testing.assert_allclose(one["data"], expected[:, 50], atol=1e-6)


async def test_the_same_by_grpc_and_as_binary_data(
    http: httpx.AsyncClient, listing: NodeProcess, topics: Bundle
) -> None:
    given = triton.InferInput("xy", [3, 2], "FP32")
    given.set_data_from_numpy(XY)
    async with triton.InferenceServerClient(listing.grpc_address) as client:
        found = await client.infer("topics", [given], outputs=[triton.InferRequestedOutput("topics")])
        described = (await client.get_model_metadata("topics", as_json=True))["outputs"]
    np.testing.assert_allclose(found.as_numpy("topics"), columns(topics)[:, :50], atol=1e-6)
    assert [output["shape"] for output in described] == [["-1", "50"], ["-1"]]
    wanted = [{"name": "topics", "parameters": {"binary_data": True}}]
    answer = await post(http, {"inputs": [INPUT], "outputs": wanted}, PATH)
    head = int(answer.headers["Inference-Header-Content-Length"])
    assert orjson.loads(answer.content[:head])["outputs"][0]["shape"] == [3, 50]
    assert np.frombuffer(answer.content[head:], "<f4").reshape(3, 50).tolist() == found.as_numpy("topics").tolist()


async def test_one_score_that_is_not_finite_fails_the_request_by_name(http: httpx.AsyncClient) -> None:
    bad = {**INPUT, "shape": [1, 2], "data": [3e38, 0.0]}
    assert "not finite: topics of row 0" in error_of(await post(http, {"inputs": [bad]}, PATH), 500)
