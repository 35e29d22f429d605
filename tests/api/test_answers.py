"""Every entity gets its own value, byte for byte, by all three end points, precomputed, cached and live."""

from urllib.parse import quote

import httpx
import pytest

from tests.api.conftest import AWKWARD, World
from tests.api.fresh_world import Fresh

PATH = "/v1/models/007"


def get(world: World, entity: str) -> httpx.Response:
    return world.client.get(f"{PATH}/predictions/{quote(entity, safe='')}")


def expected(world: World, entity: str) -> dict[str, float]:
    late, minutes = world.small.outputs([world.small.records[entity]])[0]
    return {"late": round(float(late), 6), "minutes": round(float(minutes), 6)}


@pytest.mark.parametrize("entity", AWKWARD, ids=ascii)
def test_awkward_ids_are_kept_apart_and_exact(world: World, entity: str) -> None:
    by_get = get(world, entity)
    by_post = world.client.post(f"{PATH}/predict", json={"entity": entity})
    by_batch = world.client.post(f"{PATH}/predictions:batch", json={"items": [entity, {"entity": entity}]})
    documents = [by_get.json(), by_post.json(), *by_batch.json()["results"]]
    for document in documents:
        assert document["entity"] == entity
        assert document["outputs"] == expected(world, entity)
    is_hot = entity in world.small.hot
    assert documents[0]["source"] == ("precomputed" if is_hot else "live")
    assert documents[0]["generation"] == ("20261128T0200Z-1" if is_hot else None)
    assert documents[0]["miss_reason"] == (None if is_hot else "not_selected")


def told(response: httpx.Response) -> tuple[int, dict[str, object], dict[str, str]]:
    """Status, document and header without what differs from one request to the next."""
    passing = {"age_s", "request_id", "x-request-id", "date", "age", "server-timing", "content-length"}
    document = {name: value for name, value in response.json().items() if name not in passing}
    header = {name: value for name, value in response.headers.items() if name not in passing}
    stages = [stage.partition(";")[0] for stage in response.headers["server-timing"].split(", ")]
    return response.status_code, document, {**header, "stages": " ".join(stages)}


def test_the_short_way_of_a_hit_and_the_long_one_say_the_same(world: World, fresh: Fresh) -> None:
    # A header that may change the answer, though it does not here, takes a request the long way.
    long_way, long_post = {"If-None-Match": '"none"'}, {"Cache-Control": "max-age=999999"}
    for entity in world.small.hot:
        short = get(world, entity)
        assert told(short) == told(world.client.get(short.request.url, headers=long_way)), entity
        short = world.client.post(f"{PATH}/predict", json={"entity": entity})
        by_long = world.client.post(f"{PATH}/predict", json={"entity": entity}, headers=long_post)
        assert told(short) == told(by_long), entity
    for _ in range(2):  # the second time from L1, which either may have filled
        for entity in ("e36", "e37", "e38"):
            path = f"/v1/models/asked/predictions/{entity}"
            assert told(fresh.api.client.get(path)) == told(fresh.api.client.get(path, headers=long_way))


def test_a_request_id_comes_back_as_it_was_given_by_the_short_way_too(world: World) -> None:
    given = r'quoted "\" \u0041'.replace(" ", "")
    answer = world.client.get(
        f"{PATH}/predictions/{quote(world.small.hot[0], safe='')}", headers={"X-Request-Id": given}
    )
    assert answer.json()["source"] == "precomputed"
    assert (answer.headers["X-Request-Id"], answer.json()["request_id"]) == (given, given)


def test_a_slash_may_stand_unescaped(world: World) -> None:
    assert world.client.get(f"{PATH}/predictions/a/b").json()["outputs"] == expected(world, "a/b")
    assert world.client.get(f"{PATH}/predictions/a%252Fb").json()["entity"] == "a%2Fb"


def test_dot_segments_go_by_post(world: World) -> None:
    for entity in (".", ".."):
        answer = world.client.post(f"{PATH}/predict", json={"entity": entity, "features": {"distance": 1}})
        assert (answer.status_code, answer.json()["entity"]) == (200, entity)


def test_a_live_answer_is_written_back_and_cached(world: World) -> None:
    first, second = get(world, "cold1"), get(world, "cold1")
    assert first.json()["source"] == "live"
    assert second.json()["source"] == "cached"
    assert second.json()["computed_at"] == first.json()["computed_at"]
    assert first.json()["outputs"] == second.json()["outputs"] == expected(world, "cold1")
    ttl_ms = world.redis.pttl("hs:007:l:1:cold1")
    assert 3_500_000 < ttl_ms <= 3_600_000


def test_what_an_answer_says(world: World) -> None:
    answer = world.client.get(f"{PATH}/predictions/hot3", headers={"X-Request-Id": "mine-7"})
    document = answer.json()
    assert answer.headers["X-Request-Id"] == document["request_id"] == "mine-7"
    assert answer.headers["Server-Timing"].startswith("route;dur=")
    assert (document["model"], document["version"]) == ("007", "1")
    is_late = world.small.records["hot3"]["edge"] == 0.2
    assert (document["label"], document["confidence"]) == ("late" if is_late else "on time", 0.5)
    assert document["computed_at"] == "2026-11-28T02:00:00.000Z"
    assert document["age_s"] > 0
    assert (document["experiment"], document["arm"]) == (None, None)


def test_stages_of_a_live_answer(world: World) -> None:
    stages = get(world, "cold2").headers["Server-Timing"]
    names = [part.partition(";")[0] for part in stages.split(", ")]
    assert names == ["route", "lookup", "features", "queue", "batch", "execute", "post"]


def test_edges_fall_the_same_way_by_json_and_by_table(world: World) -> None:
    """0.1 as a double, as the double of its float32, and just under it; and -0.0 beside 0.0."""
    labels = {}
    for edge in ("0.1", "0.10000000149", "0.09999999", "16777217", "1e-46", "-0.0", "0.0", "0"):
        body = f'{{"entity": "e", "features": {{"distance": 0, "edge": {edge}}}}}'
        answer = world.client.post(f"{PATH}/predict", content=body, headers={"Content-Type": "application/json"})
        labels[edge] = answer.json()["label"]
    assert labels["0.1"] == labels["0.10000000149"] == labels["16777217"] == "late"
    assert labels["0.09999999"] == labels["1e-46"] == labels["-0.0"] == labels["0.0"] == labels["0"] == "on time"


def test_minus_zero_and_zero_are_one_computation(world: World) -> None:
    def ask(distance: str) -> str:
        body = f'{{"entity": "e", "features": {{"distance": {distance}, "airline": "UA"}}}}'
        return str(world.client.post(f"{PATH}/predict", content=body).json()["source"])

    assert [ask("0.0"), ask("-0.0"), ask("0")] == ["live", "cached", "cached"]


def test_too_large_for_float32_is_refused(world: World) -> None:
    body = {"entity": "e", "features": {"distance": 3.4028236e38}}
    assert world.client.post(f"{PATH}/predict", json=body).status_code == 422


def test_no_caller_can_change_what_another_reads(world: World) -> None:
    """Brought features are answered from themselves, and leave nothing an entity's look-up would read."""
    for entity in ("hot5", "cold5"):
        poison = {"entity": entity, "features": {"distance": 9_999_999, "edge": 1}}
        answer = world.client.post(f"{PATH}/predict", json=poison).json()
        assert answer["outputs"]["minutes"] > 500_000
        assert answer["miss_reason"] == "caller_features"
        assert get(world, entity).json()["outputs"] == expected(world, entity)


def test_features_of_an_unknown_entity(world: World) -> None:
    answer = world.client.post(f"{PATH}/predict", json={"entity": "new", "features": {"distance": 8}}).json()
    assert answer["outputs"] == {"late": 0.5, "minutes": pytest.approx(60 * (0.008 + 0.125), abs=1e-4)}
    unknown = world.client.post(f"{PATH}/predict", json={"entity": "new"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_entity")


def test_model_information(world: World) -> None:
    told = world.client.get("/v1/models/007").json()
    assert (told["stable"], told["generation"], told["rows"]) == ("1", "20261128T0200Z-1", len(world.small.hot))
    assert told["features"] == ["distance", "edge", "airline"]
    assert world.client.get("/v1/models/unborn").json()["code"] == "not_ready"
    assert world.client.get("/v1/models/nobody").json()["code"] == "unknown_model"
