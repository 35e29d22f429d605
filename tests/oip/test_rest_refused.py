"""REST requests that cannot be answered: each is told why, with the right status, as `{"error": …}`."""

import gzip
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from online.inference.node.oip.errors import Invalid, TooLarge
from online.inference.node.oip.rest_codec import MAX_JSON_BYTES, parse_infer
from tests.oip.conftest import MAX_BODY_BYTES, json_inputs, random_rows
from tests.support.oip import INFER, LENGTH, error_of, outputs_of, post

ONE = {"name": "numbers", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
TWO = {"name": "airline", "datatype": "INT64", "shape": [1, 1], "data": [1]}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"inputs": [ONE]}, "airline is missing"),
        ({"inputs": [ONE, TWO, ONE]}, "given twice"),
        ({"inputs": [ONE, TWO, {**ONE, "name": "x"}]}, "unknown input 'x'"),
        ({"inputs": [ONE, {**TWO, "name": "delay"}]}, "both kinds"),
        ({"inputs": []}, "no inputs"),
        ({}, "no inputs"),
        ({"inputs": [{**ONE, "datatype": "FP64"}, TWO]}, "datatype must be FP32"),
        ({"inputs": [{**ONE, "datatype": "BF16"}, TWO]}, "BF16"),
        ({"inputs": [{**ONE, "shape": [2]}, TWO]}, "rows"),
        ({"inputs": [{**ONE, "shape": [1, 3]}, TWO]}, "2 elements for shape"),
        ({"inputs": [{**ONE, "shape": [1, 1, 2]}, TWO]}, "numbers must be (1, 2)"),
        ({"inputs": [{**ONE, "shape": [1 << 40, 1 << 40]}, TWO]}, "2 elements for shape"),
        ({"inputs": [{**ONE, "shape": [0, 2], "data": []}, {**TWO, "shape": [0, 1], "data": []}]}, "without rows"),
        ({"inputs": [{**ONE, "shape": [-1, 2]}, TWO]}, "extent"),
        ({"inputs": [ONE, {**TWO, "shape": [2, 1], "data": [1, 2]}]}, "differ in rows"),
        ({"inputs": [{**ONE, "data": ["1", "2"]}, TWO]}, "must be numbers"),
        ({"inputs": [{**ONE, "parameters": {"shared_memory_region": "r"}}, TWO]}, "shared memory"),
        ({"inputs": [{**ONE, "parameters": {"binary_data_size": 8}}, TWO]}, "both data and binary_data_size"),
        ({"inputs": [ONE, TWO], "outputs": [{"name": "x"}]}, "unknown output 'x'"),
        ({"inputs": [ONE, TWO], "outputs": [{"name": "late"}, {"name": "late"}]}, "twice"),
        ({"inputs": [ONE, TWO], "outputs": [{"name": "late", "parameters": {"classification": 2}}]}, "classific"),
        ({"inputs": [ONE, TWO], "parameters": {"sequence_id": 7}}, "sequences"),
        ({"inputs": [ONE, TWO], "parameters": {"timeout": -1}}, "timeout"),
        ({"inputs": [ONE, TWO], "parameters": {"priority": "high"}}, "priority"),
        ({"inputs": [ONE, TWO], "id": 7}, "id must be text"),
        ({"inputs": {}}, "list of objects"),
        ([], "must be an object"),
    ],
)
async def test_what_is_wrong_is_said(http: httpx.AsyncClient, document: object, told: str) -> None:
    assert told in error_of(await post(http, document), 400)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"id": NaN}', b'{"id":"a\\ud83d"}', b"\xff", b'{"a": 1e999}', b"[" * 9000]
)
async def test_malformed_json(http: httpx.AsyncClient, body: bytes) -> None:
    assert "not JSON" in error_of(await http.post(INFER, content=body), 400)


async def test_lengths_that_lie(http: httpx.AsyncClient) -> None:
    def of_size(size: object) -> bytes:
        return orjson.dumps(
            {
                "inputs": [
                    {**{k: v for k, v in ONE.items() if k != "data"}, "parameters": {"binary_data_size": size}}
                ]
            }
        )

    header = of_size(8)
    for content, length in (
        (header + b"\0" * 7, len(header)),
        (header + b"\0" * 9, len(header)),
        (header + b"\0" * 8, len(header) + 1),
        (header + b"\0" * 8, len(header) - 1),
        (header + b"\0" * 8, 10**9),
        (header + b"\0" * 8, -1),
        (header + b"\0" * 8, "8e3"),
        (header + b"\0" * 8, 10**30),
        (of_size(-8), len(of_size(-8))),
        (of_size(1 << 62), len(of_size(1 << 62))),
        (of_size("8") + b"\0" * 8, len(of_size("8"))),
    ):
        error_of(await http.post(INFER, content=content, headers={LENGTH: str(length)}), 400)
    error_of(await http.post(INFER, content=header + b"\0" * 8), 400)


async def test_bodies_have_a_limit_before_and_after_inflating(http: httpx.AsyncClient) -> None:
    async def endless() -> Any:
        for _ in range(MAX_BODY_BYTES // 1024 + 2):
            yield b" " * 1024

    plain = b" " * (MAX_BODY_BYTES + 1)
    error_of(await http.post(INFER, content=plain), 413)
    error_of(await http.post(INFER, content=endless()), 413)
    bomb = gzip.compress(b" " * (30 * MAX_BODY_BYTES))
    assert len(bomb) < MAX_BODY_BYTES
    error_of(await http.post(INFER, content=bomb, headers={"Content-Encoding": "gzip"}), 413)
    error_of(await http.post(INFER, content=b"{}", headers={"Content-Encoding": "br"}), 415)
    assert "gzip" in error_of(await http.post(INFER, content=b"{}", headers={"Content-Encoding": "gzip"}), 400)
    cut = gzip.compress(b"{}")[:-4]
    assert "cut short" in error_of(await http.post(INFER, content=cut, headers={"Content-Encoding": "gzip"}), 400)


async def test_json_has_a_limit_of_its_own_since_it_is_parsed_in_one_go() -> None:
    body = b'{"inputs": []' + b" " * MAX_JSON_BYTES + b"}"
    with pytest.raises(TooLarge, match="binary"):
        parse_infer(body)
    with pytest.raises(Invalid):
        parse_infer(body, 10)


async def test_input_that_is_not_finite_is_the_callers_error(http: httpx.AsyncClient) -> None:
    for value in (np.nan, np.inf):
        header = orjson.dumps(
            {
                "inputs": [
                    {"name": "distance", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}}
                ]
            }
        )
        body = header + np.array([1, value], np.float32).tobytes()
        answer = await http.post(INFER, content=body, headers={LENGTH: str(len(header))})
        assert "row 1 is not finite" in error_of(answer, 400)


async def test_unknown_model_version_path_and_method(http: httpx.AsyncClient) -> None:
    body = {"inputs": json_inputs(random_rows(1))}
    assert "tiny" in error_of(await post(http, body, "/v2/models/none/infer"), 404)
    assert "no version '3'" in error_of(await post(http, body, "/v2/models/tiny/versions/3/infer"), 404)
    error_of(await http.get("/v2/models/none"), 404)
    error_of(await http.get("/v2/models/none/ready"), 404)
    error_of(await http.get("/v2/nothing"), 404)
    error_of(await http.get(INFER), 405)
    assert (await http.get("/nothing")).json() == {"detail": "Not Found"}


async def test_rows_that_the_program_refuses_are_the_models_error(http: httpx.AsyncClient) -> None:
    tensors = random_rows(2)
    tensors[1][1] = 99  # no such category
    error_of(await post(http, {"inputs": json_inputs(tensors)}), 500)


async def test_rows_that_would_take_minutes_are_given_up_in_time(http: httpx.AsyncClient) -> None:
    rows = MAX_BODY_BYTES // 16
    header = orjson.dumps(
        {
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [rows, 1], "parameters": {"binary_data_size": 4 * rows}}
            ],
            "parameters": {"binary_data_output": True, "timeout": 1_000},
        }
    )
    body = header + np.ones(rows, np.float32).tobytes()
    answer = await http.post("/v2/models/log/infer", content=body, headers={LENGTH: str(len(header))})
    error_of(answer, 503)


async def test_a_timeout_is_kept_and_said(http: httpx.AsyncClient) -> None:
    body = {"inputs": json_inputs(random_rows(1)), "parameters": {"timeout": 2_000}}
    answer = await post(http, body)
    assert error_of(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_bad_record_names_its_row_and_feature(http: httpx.AsyncClient) -> None:
    inputs = [{"name": "distance", "datatype": "FP32", "shape": [3], "data": [1, -5, 2]}]
    assert error_of(await post(http, {"inputs": inputs}), 400).startswith("row 1: distance: must be")
    inputs = [{"name": "delay", "datatype": "FP32", "shape": [3], "data": [1, 5, 2]}]
    assert "distance is missing" in error_of(await post(http, {"inputs": inputs}), 400)
    inputs = [{"name": "distance", "datatype": "BOOL", "shape": [1], "data": [True]}]
    assert "INT8" in error_of(await post(http, {"inputs": inputs}), 400)


async def test_outputs_that_are_not_finite_are_an_error(http: httpx.AsyncClient) -> None:
    def of(*values: float) -> dict[str, object]:
        return {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(values), 1], "data": values}]}

    path = "/v2/models/log/infer"
    answer = await post(http, of(1.0, 2.0), path)
    np.testing.assert_allclose(outputs_of(answer)["log_x"], np.log([1, 2]), rtol=1e-5)
    for values in ((0.0,), (1.0, -1.0), (1.0, 0.0)):
        answer = await post(http, of(*values), path)
        assert f"not finite: log_x of row {len(values) - 1}" in error_of(answer, 500)
