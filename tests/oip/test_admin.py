"""Loading and unloading through the protocol, by REST and by the real clients."""

from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from online.inference.node.oip.admin import check_token
from online.inference.node.oip.errors import SwitchedOff, Unauthenticated
from schemas.bundle import Bundle
from tests.oip.conftest import TOKEN
from tests.support.inference import NodeProcess, address_of

BEARER = {"authorization": f"Bearer {TOKEN}"}
LOAD, UNLOAD = "/v2/repository/models/edge/load", "/v2/repository/models/edge/unload"
INFER = "/v2/models/edge/infer"
BODY = orjson.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [0.0, 0.2]}]})


async def states_of(http: httpx.AsyncClient, name: str) -> dict[str, str]:
    index = (await http.post("/v2/repository/index")).json()
    return {entry["version"]: entry["state"] for entry in index if entry["name"] == name}


@pytest.mark.long
async def test_load_infer_unload_and_load_again(
    http: httpx.AsyncClient, node: NodeProcess, late_bundle: Bundle
) -> None:
    address = address_of(late_bundle)
    body = orjson.dumps({"parameters": {"bundle": address}})
    answer = await http.post(LOAD, content=body, headers=BEARER, timeout=60)
    assert answer.status_code == 200, answer.text
    found = (await http.post(INFER, content=BODY)).json()["outputs"][0]["data"]
    np.testing.assert_array_equal(np.array(found, np.float32), np.array([0.49999997, 0.5], np.float32))
    assert await states_of(http, "edge") == {"1": "READY"}

    config = orjson.dumps({"parameters": {"bundle": {"string_value": address}}}).decode()
    with triton.InferenceServerClient(node.grpc_address) as client:
        client.load_model("edge", headers=BEARER, config=config)  # it is served already
        with pytest.raises(InferenceServerException, match="is of model edge, not 'other'"):
            client.load_model("other", headers=BEARER, config=config)
        assert client.is_model_ready("edge")  # which was there before, and stays
        client.unload_model("edge", headers=BEARER)
        assert not client.is_model_ready("edge")
    assert await states_of(http, "edge") == {"1": "UNAVAILABLE"}
    refused = await http.post(INFER, content=BODY)
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert (await http.get("/v2/models/edge/ready")).status_code == 503
    only_ready = (await http.post("/v2/repository/index", content=b'{"ready": true}')).json()
    assert "edge" not in {entry["name"] for entry in only_ready}

    assert (await http.post(LOAD, headers=BEARER, timeout=60)).status_code == 200
    assert (await http.post(INFER, content=BODY)).status_code == 200
    with triton_http.InferenceServerClient(node.http_url.removeprefix("http://"), network_timeout=60) as client:
        client.load_model("edge", headers=BEARER, config=config)
        client.unload_model("edge", headers=BEARER)
        assert not client.is_model_ready("edge")


def test_the_grpc_client_needs_the_token(node: NodeProcess) -> None:
    with triton.InferenceServerClient(node.grpc_address) as client:
        for headers, status in (
            (None, "UNAUTHENTICATED"),
            ({"authorization": "Bearer x"}, "UNAUTHENTICATED"),
            (BEARER, "NOT_FOUND"),
        ):
            for call in (client.load_model, client.unload_model):
                with pytest.raises(InferenceServerException) as caught:
                    call("none", headers=headers)
                assert caught.value.status() == f"StatusCode.{status}"


@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"]
)
async def test_only_the_token_opens(http: httpx.AsyncClient, header: str | None) -> None:
    headers = {} if header is None else {"authorization": header.encode()}
    for path in (LOAD, UNLOAD):
        answer = await http.post(path, headers=headers)
        assert answer.status_code == 401, answer.text
        assert TOKEN not in answer.text


@pytest.mark.parametrize(
    ("parameters", "status", "told"),
    [
        ({"bundle": "file:///x"}, 400, "URL@DIGEST"),
        ({"bundle": f"@{'a' * 64}"}, 400, "URL@DIGEST"),
        ({"bundle": f"/x@{'A' * 64}"}, 400, "URL@DIGEST"),
        ({"bundle": 7}, 400, "URL@DIGEST"),
        ({"bundle": f"/elsewhere@{'a' * 64}"}, 400, "failed to load"),
        ({"config": "{"}, 400, "must be JSON"),
        ({"config": "{}"}, 400, "must be JSON"),
        ({"file:1/model.pt2": "AA=="}, 400, "not taken"),
        ({}, 404, "none"),
    ],
)
async def test_what_cannot_be_loaded_is_said(
    http: httpx.AsyncClient, parameters: dict[str, object], status: int, told: str
) -> None:
    body = orjson.dumps({"parameters": parameters})
    answer = await http.post("/v2/repository/models/none/load", content=body, headers=BEARER, timeout=60)
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]


async def test_unloading_what_is_unknown(http: httpx.AsyncClient) -> None:
    body = b'{"parameters": {"version": "9"}}'
    for model, content in (("none", b""), ("tiny", body)):
        answer = await http.post(f"/v2/repository/models/{model}/unload", content=content, headers=BEARER)
        assert answer.status_code == 404


def test_without_a_token_it_is_switched_off(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n")
    for file in (None, tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(SwitchedOff, match="INFERENCE_ADMIN_TOKEN"):
            check_token(file, "Bearer ")
    (tmp_path / "token").write_bytes(b"a\n")
    check_token(tmp_path / "token", "bearer a")
    with pytest.raises(Unauthenticated):
        check_token(tmp_path / "token", None)
