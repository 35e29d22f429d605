"""The batch end point: a result or a problem for each, in order, in one pass."""

import math

from schemas.keys import bucket_count, bucket_key, bucket_of
from tests.api.conftest import AWKWARD, World
from tests.support.publish_small import GENERATION

BATCH = "/v1/models/007/predictions:batch"


def forget_live(world: World) -> None:
    for key in world.redis.keys("hs:007:l:*"):
        world.redis.delete(key)


def test_a_thousand_in_order_with_few_requests_to_the_live_tier(world: World) -> None:
    """Hits, misses, duplicates, brought features and errors, mixed; live rows go out many at a time."""
    names = [f"{('hot', 'cold')[place % 2]}{place % 300 // 2}" for place in range(997)]
    items: list[object] = [*names, {"entity": "mine", "features": {"distance": 4}}, "nobody", ""]
    forget_live(world)
    before = (world.served.requests, world.served.rows)
    answer = world.client.post(BATCH, json={"items": items})
    results = answer.json()["results"]
    assert answer.status_code == 200
    assert [result.get("entity") for result in results] == [*names, "mine", "nobody", ""]
    expected = world.small.outputs([world.small.records[name] for name in names])
    for result, (late, minutes) in zip(results, expected, strict=False):
        assert result["outputs"] == {"late": round(float(late), 6), "minutes": round(float(minutes), 6)}
    assert {result["source"] for result in results[:997:2]} == {"precomputed"}
    assert {result["source"] for result in results[1:997:2]} == {"live"}
    assert [result.get("code") for result in results[997:]] == [None, "unknown_entity", "invalid_entity"]
    requests, rows = world.served.requests - before[0], world.served.rows - before[1]
    assert rows == len(set(names[1::2])) + 1  # identical misses share one row
    assert requests == math.ceil(rows / 64)


def test_a_batch_of_hits_is_one_look_up(world: World) -> None:
    def gets() -> int:
        return int(world.redis.info("commandstats").get("cmdstat_hget", {"calls": 0})["calls"])

    before = gets()
    answer = world.client.post(BATCH, json={"items": [f"hot{place}" for place in range(100)]})
    assert gets() - before == 100
    assert answer.headers["Server-Timing"].startswith("route;dur=")


def test_the_short_way_of_hits_and_the_general_one_say_the_same(world: World) -> None:
    """A wish that every stored answer meets sends the whole batch by the general way."""
    names = [f"{half}{place}" for half in ("hot", "cold") for place in range(40)]
    items = [*AWKWARD, *names, "hot1", "nobody", ""]
    world.client.post(BATCH, json={"items": items})  # what is computed now is cached from here on
    general, short = (
        world.client.post(BATCH, json={"items": items}, headers=headers).json()["results"]
        for headers in ({"Cache-Control": "max-age=1000000", "X-Request-Id": 'a"\\b'}, {"X-Request-Id": 'a"\\b'})
    )
    assert {result.get("source") for result in short} == {"precomputed", "cached", None}
    for one in (*general, *short):
        assert one.pop("age_s", 0) >= 0
    assert short == general
    forget_live(world)


def test_a_damaged_value_of_a_batch_is_a_miss_of_its_entity_only(world: World) -> None:
    place = bucket_key("007", "1", GENERATION, bucket_of(b"hot7", bucket_count(len(world.small.hot))))
    kept = world.redis.hget(place, "hot7")
    assert kept
    world.redis.hset(place, "hot7", kept[:-1])
    results = world.client.post(BATCH, json={"items": ["hot6", "hot7", "hot8"]}).json()["results"]
    world.redis.hset(place, "hot7", kept)
    assert [(result["source"], result["miss_reason"]) for result in results] == [
        ("precomputed", None),
        ("live", "corrupt"),
        ("precomputed", None),
    ]


def test_rows_that_are_not_finite_fail_alone(world: World) -> None:
    """log(0) and log(-1): a problem with a stable code for that entity, strict JSON, and nothing written back."""
    items = [
        "ten",
        "zero",
        {"entity": "minus", "features": {"x": -1}},
        {"entity": "two", "features": {"x": 2}},
    ]
    results = world.client.post("/v1/models/log/predictions:batch", json={"items": items}).json()["results"]
    assert [result.get("code") for result in results] == [None, "model_error", "model_error", None]
    assert results[0]["source"] == "precomputed"
    assert results[3]["outputs"] == {"log_x": round(math.log(2), 6)}
    assert world.redis.get("hs:log:l:1:zero") is None
    single = world.client.get("/v1/models/log/predictions/zero")
    assert (single.status_code, single.json()["code"]) == (500, "model_error")
    assert len(world.redis.keys("hs:log:i:*")) == 1


def test_the_default_where_the_policy_says_so(world: World) -> None:
    answer = world.client.get("/v1/models/safe/predictions/zero").json()
    assert (answer["source"], answer["outputs"]) == ("default", {"log_x": 0.0})
    assert answer["miss_reason"] == "version_not_precomputed"
    assert world.redis.keys("hs:safe:l:*") == []
    fine = world.client.post("/v1/models/safe/predict", json={"entity": "one", "features": {"x": 1}}).json()
    assert (fine["source"], fine["outputs"]) == ("live", {"log_x": 0.0})
