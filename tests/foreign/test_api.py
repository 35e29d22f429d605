"""The API as its user starts it, with a foreign server in place of the inference tier."""

from collections.abc import Iterator

import httpx
import pytest
from redis import Redis

from tests.foreign.servers import OipServer, golden_manifest
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import Small
from tests.support.redis_server import RedisServer

RECORDS = {f"e{place}": {"distance": float(place), "airline": "UA"} for place in range(20)} | {
    "bad": {"distance": 666.0}  # 0.666 as the model takes it
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApiProcess, OipServer, Small]]:
    """An API without a node, on a model without a generation."""
    folder = tmp_path_factory.mktemp("foreign")
    small = Small(folder, golden_manifest(), RECORDS, [])
    with RedisServer() as redis, Redis.from_url(redis.url) as client, OipServer(binary=True) as server:
        small.publish(client, generation=None)
        named = {"delay": {"model": "theirs", "version": {"1": "42"}, "outputs": ["out"]}}
        with ApiProcess(
            folder, redis_url=redis.url, foreign_urls=[server.url], foreign_models=named, l1_bytes="0"
        ) as api:
            api.wait_ready()
            yield api, server, small


def ask(api: ApiProcess, entity: str, **headers: str) -> httpx.Response:
    return api.client.get(f"/v1/models/delay/predictions/{entity}", headers=headers)


def test_a_live_answer_names_where_it_comes_from(world: tuple[ApiProcess, OipServer, Small]) -> None:
    api, server, small = world
    server.behave(binary=True)
    answer = ask(api, "e7")
    told = answer.json()
    assert (answer.status_code, told["source"], told["version"]) == (200, "live", "1")
    late, minutes = small.outputs([RECORDS["e7"]])[0].tolist()
    assert told["outputs"] == {"late": pytest.approx(late), "minutes": pytest.approx(minutes)}
    assert "execute" in answer.headers["Server-Timing"]
    assert server.seen["paths"] == ["/v2/models/theirs/versions/42/infer"]
    assert api.client.get("/readyz").json()["models"]["delay"]["warm_replicas"] == 1


def test_an_output_that_is_no_number_fails_alone(world: tuple[ApiProcess, OipServer, Small]) -> None:
    api, server, _ = world
    server.behave(kind="nan")
    body = {"items": ["e11", "bad", "e12"]}
    results = api.client.post("/v1/models/delay/predictions:batch", json=body).json()["results"]
    assert [result.get("code") for result in results] == [None, "model_error", None]
    assert b"NaN" not in api.client.post("/v1/models/delay/predictions:batch", json=body).content


def test_refusals_and_deadlines_are_the_apis_own(world: tuple[ApiProcess, OipServer, Small]) -> None:
    api, server, _ = world
    server.behave(kind="refuse", retry_after="3")
    answer = ask(api, "e13")
    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    assert answer.headers["Retry-After"] == "3"
    server.behave(kind="body", body="<html>")
    assert (ask(api, "e14").status_code, ask(api, "e14").json()["code"]) == (500, "model_error")
    server.behave(delay_s=30)
    answer = ask(api, "e15", **{"X-Deadline-Ms": "200"})
    assert (answer.status_code, answer.json()["code"]) == (503, "deadline_exceeded")
    server.wait_seen(lambda seen: seen["gone"] == 1)


def test_a_lost_server_is_unready_and_comes_back(world: tuple[ApiProcess, OipServer, Small]) -> None:
    api, server, _ = world
    server.stop()
    wait_for(lambda: api.client.get("/readyz").status_code == 503, what="unreadiness")
    answer = ask(api, "e16")
    assert (answer.status_code, answer.json()["code"]) == (503, "live_unavailable")
    server.__enter__()
    wait_for(lambda: api.client.get("/readyz").status_code == 200, what="readiness")
    assert ask(api, "e16").json()["source"] == "live"
