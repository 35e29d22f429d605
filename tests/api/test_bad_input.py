"""Bad input is refused with a stable code that names the field, for its own entity only; the worker stays."""

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.conftest import World
from tests.support.request_log_reading import read_log

JSON = {"Content-Type": "application/json"}
PREDICT, BATCH = "/v1/models/007/predict", "/v1/models/007/predictions:batch"


def refused(answer: httpx.Response, status: int, code: str, field: str | None = None) -> dict[str, object]:
    document = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.status_code, document["status"], document["code"]) == (status, status, code), answer.text
    assert document["request_id"] == answer.headers["X-Request-Id"]
    if field is not None:
        assert field in [error["field"] for error in document["errors"]]
    return dict(document)


def test_unknown_model_needs_no_look_up(world: World) -> None:
    before = world.redis.info("commandstats").get("cmdstat_hget", {}).get("calls", 0)
    for _ in range(20):
        refused(world.client.get("/v1/models/nobody/predictions/a"), 404, "unknown_model")
        refused(world.client.post("/v1/models/nobody/predict", json={"entity": "a"}), 404, "unknown_model")
        refused(
            world.client.post("/v1/models/nobody/predictions:batch", json={"items": ["a"]}), 404, "unknown_model"
        )
    assert world.redis.info("commandstats").get("cmdstat_hget", {}).get("calls", 0) == before


def test_unknown_routes_and_methods(world: World) -> None:
    refused(world.client.get("/v1/nothing"), 404, "not_found")
    refused(world.client.delete("/healthz"), 405, "method_not_allowed")
    answer = world.client.get(PREDICT)
    refused(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "POST"
    refused(world.client.put("/v1/models/007/predictions/hot1"), 405, "method_not_allowed")


def test_a_model_without_a_document_is_not_ready(world: World) -> None:
    answer = world.client.get("/v1/models/unborn/predictions/a")
    refused(answer, 503, "not_ready")
    assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize("entity", ["", "x" * 257, "\u65e5" * 86])
def test_empty_and_long_entities(world: World, entity: str) -> None:
    refused(world.client.post(PREDICT, json={"entity": entity}), 422, "invalid_entity", "entity")
    refused(world.client.get(f"/v1/models/007/predictions/{entity}"), 422, "invalid_entity", "entity")
    results = world.client.post(BATCH, json={"items": [entity, "hot1"]}).json()["results"]
    assert (results[0]["code"], results[1]["entity"]) == ("invalid_entity", "hot1")


@pytest.mark.parametrize("entity", ["9007199254740993", "7", "1.5", "null", "true", '["a"]', '{"a": 1}'])
def test_an_entity_that_is_no_text(world: World, entity: str) -> None:
    refused(
        world.client.post(PREDICT, content=f'{{"entity": {entity}}}', headers=JSON),
        422,
        "invalid_entity",
        "entity",
    )


@pytest.mark.parametrize("path", ["%", "%2", "%zz", "a%", "%FF", "%C3", "%ED%A0%BD"])
def test_bad_escapes_in_the_path(world: World, path: str) -> None:
    refused(raw_get(world, f"/v1/models/007/predictions/{path}"), 422, "invalid_entity", "entity")


def test_half_an_emoji(world: World) -> None:
    """Trial: only its own entity is refused; the log holds every good row of the second; the worker stays."""
    workers = world.api.workers()
    answer = world.client.post(PREDICT, content=b'{"entity":"a\\ud83d"}', headers=JSON)
    refused(answer, 422, "invalid_entity", "entity")
    body = b'{"items":["DL1","a\\ud83d","dl1"]}'
    results = world.client.post(BATCH, content=body, headers=JSON).json()["results"]
    assert [result.get("entity") for result in results] == ["DL1", None, "dl1"]
    assert results[1]["code"] == "invalid_entity"
    assert results[1]["errors"][0]["field"] == "items.1"
    text = b'{"entity":"a","features":{"distance":1,"airline":"\\udc00"}}'
    refused(world.client.post(PREDICT, content=text, headers=JSON), 422, "invalid_features", "features.airline")
    name = b'{"entity":"a","features":{"distance":1,"\\udc00":"x"}}'
    refused(world.client.post(PREDICT, content=name, headers=JSON), 422, "invalid_features", "features.\\udc00")
    answer = world.client.get("/v1/models/007/predictions/hot1", headers=[(b"X-Request-Id", b"\xff\xfe")])
    assert answer.status_code == 200
    assert answer.headers["X-Request-Id"].isalnum()
    ids = [f"emoji-{place}" for place in range(200)]
    with ThreadPoolExecutor(8) as pool:
        good = list(
            pool.map(
                lambda i: world.client.get("/v1/models/007/predictions/hot2", headers={"X-Request-Id": i}), ids
            )
        )
    assert {answer.status_code for answer in good} == {200}
    read_log(world.api, "007", lambda rows: set(ids) <= {row["request_id"] for row in rows})
    assert world.api.workers() == workers


@pytest.mark.parametrize("x", ["NaN", "1e999", "-1e999", "Infinity", '"NaN"', '"1"', "true", "[1]", "{}"])
def test_numbers_that_are_none(world: World, x: str) -> None:
    body = f'{{"entity": "a", "features": {{"x": {x}}}}}'
    refused(
        world.client.post("/v1/models/log/predict", content=body, headers=JSON),
        422,
        "invalid_features",
        "features.x",
    )


def test_bad_features_name_field_and_allowed_values(world: World) -> None:
    features = {"distance": -1, "edge": "x", "altitude": 3}
    answer = world.client.post(PREDICT, json={"entity": "a", "features": features})
    document = refused(answer, 422, "invalid_features", "features.altitude")
    errors = {error["field"]: error["reason"] for error in document["errors"]}  # type: ignore[attr-defined]
    assert ">= 0" in errors["features.distance"]
    assert "distance, edge, airline" in errors["features.altitude"]
    assert "number" in errors["features.edge"]
    refused(
        world.client.post(PREDICT, json={"entity": "a", "features": {}}),
        422,
        "invalid_features",
        "features.distance",
    )
    refused(world.client.post(PREDICT, json={"entity": "a", "features": [1]}), 422, "invalid_features", "features")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"entity":"a","x":1}', b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_request(world: World, body: bytes) -> None:
    refused(world.client.post(PREDICT, content=body, headers=JSON), 422, "invalid_request")
    refused(world.client.post(BATCH, content=body, headers=JSON), 422, "invalid_request")


def test_batches_of_wrong_size(world: World) -> None:
    refused(world.client.post(BATCH, json={"items": []}), 422, "invalid_request", "items")
    refused(world.client.post(BATCH, json={"items": ["a"] * 1001}), 422, "invalid_request", "items")


def test_media_types(world: World) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"Content-Type": media_type}
        refused(
            world.client.post(PREDICT, content=b'{"entity":"hot1"}', headers=headers),
            415,
            "unsupported_media_type",
        )
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert world.client.post(PREDICT, content=b'{"entity":"hot1"}', headers=headers).status_code == 200


def test_bodies_over_the_limit(world: World) -> None:
    body = b'{"entity":"' + b"x" * (5 << 20) + b'"}'
    refused(world.client.post(PREDICT, content=body, headers=JSON), 413, "body_too_large")
    chunks = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    refused(world.client.post(PREDICT, content=chunks, headers=JSON), 413, "body_too_large")
    assert world.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("deadline", ["0", "-1", "soon", "1.5", "9" * 30])
def test_deadlines_that_are_none(world: World, deadline: str) -> None:
    answer = world.client.get("/v1/models/007/predictions/hot1", headers={"X-Deadline-Ms": deadline})
    refused(answer, 422, "invalid_request", "X-Deadline-Ms")


def test_request_ids_are_bounded_and_visible(world: World) -> None:
    answer = world.client.get("/healthz/none", headers={"X-Request-Id": "a b\tc" + "x" * 500})
    assert answer.headers["X-Request-Id"] == answer.json()["request_id"]
    assert answer.headers["X-Request-Id"].startswith("abcx")
    assert len(answer.headers["X-Request-Id"]) <= 128


def raw_get(world: World, path: str) -> httpx.Response:
    """The path goes out as it stands: httpx would mend it."""
    with socket.create_connection(("127.0.0.1", world.api.port), timeout=5) as link:
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        raw = b""
        while chunk := link.recv(65_536):
            raw += chunk
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)  # type: ignore[arg-type]
