"""How fresh: by the model's rule, by the request's wish, while it is renewed, and when live cannot answer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from schemas.codec import pack
from schemas.keys import bucket_key, bucket_of, field_of, routes_key
from schemas.routes import Generation, RoutesDocument
from tests.api.fresh_world import BASE, DELTA, MINUTE_MS, OLDER, OLDER_DELTA, Fresh
from tests.support.api_process import wait_for
from tests.support.nights import load, route

OVER_CAP = 'hotset; hit; detail="over the rate of fresh answers"'


@contextmanager
def refusing(fresh: Fresh, model: str, code: str = "live_unavailable") -> Iterator[None]:
    fresh.tier[model].refuse_with = code
    try:
        yield
    finally:
        fresh.tier[model].refuse_with = None


def test_a_value_past_the_models_age_is_a_miss(fresh: Fresh) -> None:
    assert fresh.answer("aged", "e11") == ("live", "expired", fresh.minutes("e11"))
    wait_for(lambda: fresh.answer("aged", "e11") == ("cached", "expired", fresh.minutes("e11")), what="a hit")


def test_a_value_past_the_requests_age_is_a_miss_within_a_rate(fresh: Fresh) -> None:
    """The rate of these tests is one, and the next after five seconds."""
    hour = "max-age=3600"
    assert fresh.answer("asked", "e1", hour) == ("precomputed", None, BASE)
    assert fresh.answer("asked", "e1", "max-age=60") == ("live", "expired", fresh.minutes("e1"))
    over = fresh.get("asked", "e2", "max-age=60")
    assert (over.json()["source"], over.headers["Cache-Status"]) == ("precomputed", OVER_CAP)
    # What was computed for one is there for all, as the newest: L1 too has let the older go.
    wait_for(lambda: fresh.answer("asked", "e1")[0] == "cached", what="the newer value")
    within = fresh.get("asked", "e1", "max-age=60")
    assert (within.json()["source"], within.headers.get("Cache-Status")) == ("cached", None)


def test_no_cache_within_a_rate(fresh: Fresh) -> None:
    began = fresh.tier["batched"].requests
    asked = {"items": ["e1", "e2", "e55"]}
    path = "/v1/models/batched/predictions:batch"
    answer = fresh.api.client.post(path, json=asked, headers={"Cache-Control": "no-cache"})
    one, two, three = answer.json()["results"]
    assert (one["source"], one["miss_reason"]) == ("live", "no_cache")
    assert one["outputs"]["minutes"] == fresh.minutes("e1")
    assert (two["source"], two["miss_reason"]) == ("precomputed", None)
    assert (three["source"], three["miss_reason"]) == ("live", "not_selected")
    assert answer.headers["Cache-Status"] == OVER_CAP
    assert fresh.tier["batched"].rows >= 2
    assert fresh.tier["batched"].requests > began
    over = fresh.get("batched", "e3", "no-cache")
    assert (over.json()["source"], over.headers["Cache-Status"]) == ("precomputed", OVER_CAP)


def test_only_if_cached(fresh: Fresh) -> None:
    assert fresh.answer("plain", "e20", "only-if-cached") == ("precomputed", None, BASE)
    none = fresh.get("plain", "e56", "only-if-cached")
    assert (none.status_code, none.json()["code"]) == (504, "not_stored")
    assert fresh.get("aged", "e21", "only-if-cached").status_code == 504


def test_what_is_renewed_is_answered_at_once_and_renewed_once(fresh: Fresh) -> None:
    worker = fresh.tier["renewed"]
    begun, worker.delay_s = worker.requests, 1.0
    try:
        for _ in range(5):
            began = time.monotonic()
            assert fresh.answer("renewed", "e1") == ("precomputed", None, BASE)
            assert time.monotonic() - began < 0.9
        renewed = ("cached", "expired", fresh.minutes("e1"))
        wait_for(lambda: fresh.answer("renewed", "e1") == renewed, what="the renewal")
    finally:
        worker.delay_s = 0.0
    assert worker.requests == begun + 1
    document = fresh.get("renewed", "e1").json()
    assert document["age_s"] < 60


def test_renewal_has_a_bound_and_a_request_may_not_want_it(fresh: Fresh) -> None:
    small = fresh.smalls["renewed"]
    ancient = load(fresh.redis, small, "20261127T0200Z-1", 7, fresh.now_ms - 80 * MINUTE_MS, {"e2": 5.0})
    generations = fresh_generations(fresh, "renewed")
    route(fresh.redis, small, [ancient], is_first=False)
    wait_for(lambda: live_generation(fresh, "renewed") == ancient.id, what="the ancient generation")
    assert fresh.answer("renewed", "e2")[:2] == ("live", "expired")
    route(fresh.redis, small, generations, is_first=False)
    wait_for(lambda: live_generation(fresh, "renewed") == generations[0].id, what="the one before")
    assert fresh.answer("renewed", "e4", "max-age=700") == ("live", "expired", fresh.minutes("e4"))


def test_a_renewal_that_fails_costs_nobody_an_answer(fresh: Fresh) -> None:
    with refusing(fresh, "renewed"):
        for _ in range(5):
            assert fresh.answer("renewed", "e30") == ("precomputed", None, BASE)


def test_stale_where_live_cannot_answer(fresh: Fresh) -> None:
    with refusing(fresh, "kept", "overloaded"):
        assert fresh.answer("kept", "e1") == ("stale", "expired", BASE)
        document = fresh.get("kept", "e45").json()
        assert (document["source"], document["miss_reason"]) == ("stale", "not_selected")
        assert (document["outputs"]["minutes"], document["generation"]) == (OLDER, "20261128T0200Z-1")
        assert 3600 <= document["age_s"] < 4000
        assert fresh.answer("kept", "e55") == ("default", "not_selected", 5.0)
        assert fresh.answer("kept", "e2", "no-cache") == ("stale", "no_cache", BASE)
    wait_for(lambda: fresh.answer("kept", "e1")[0] == "live", what="the live tier's return")


def test_stale_has_a_bound(fresh: Fresh) -> None:
    """Of this model ten minutes and two hours: 130 minutes."""
    older = fresh_generations(fresh, "kept")[1]
    for entity, age_min in ((b"e48", 131), (b"e49", 110)):
        outputs = np.array([0.25, OLDER], np.float32)
        value = pack(entity, older.ordinal, fresh.now_ms - age_min * MINUTE_MS, outputs)
        key = bucket_key("kept", "1", older.id, bucket_of(entity, older.buckets))
        fresh.redis.hset(key, field_of(entity), value)
    with refusing(fresh, "kept"):
        assert fresh.answer("kept", "e48") == ("default", "not_selected", 5.0)
        assert fresh.answer("kept", "e49") == ("stale", "not_selected", OLDER)


def test_stale_at_the_deadline(fresh: Fresh) -> None:
    worker = fresh.tier["kept"]
    worker.delay_s = 5.0
    try:
        began = time.monotonic()
        document = fresh.get("kept", "e46", **{"X-Deadline-Ms": "200"}).json()
        assert time.monotonic() - began < 1
        assert (document["source"], document["outputs"]["minutes"]) == ("stale", OLDER)
    finally:
        worker.delay_s = 0.0


def test_what_was_invalidated_is_never_stale(fresh: Fresh) -> None:
    assert fresh.invalidate("kept", "e5", "e47").status_code == 200
    with refusing(fresh, "kept"):
        assert fresh.answer("kept", "e5") == ("default", "invalidated", 5.0)
        assert fresh.answer("kept", "e47")[0] == "default"


def test_deltas_patch_a_generation(fresh: Fresh) -> None:
    """Newest computation wins, whichever of base, deltas and written-back result it is; L1 follows."""
    small, generations = fresh.smalls["patched"], fresh_generations(fresh, "patched")
    assert fresh.answer("patched", "e1") == ("precomputed", None, BASE)
    ago_ms, both = fresh.now_ms - 10 * MINUTE_MS, {"e1": OLDER_DELTA, "e2": OLDER_DELTA}
    older = load(fresh.redis, small, "20261129T0300Z-1", 3, ago_ms - 5 * MINUTE_MS, both)
    newer = load(fresh.redis, small, "20261129T0400Z-1", 4, ago_ms, {"e1": DELTA, "e58": DELTA})
    base = generations[0].model_copy(update={"deltas": (older, newer)})
    route(fresh.redis, small, [base, *generations[1:]], is_first=False)
    wait_for(lambda: fresh.answer("patched", "e1") == ("precomputed", None, DELTA), what="the delta")
    for _ in range(2):
        assert fresh.answer("patched", "e1") == ("precomputed", None, DELTA)
        assert fresh.answer("patched", "e2") == ("precomputed", None, OLDER_DELTA)
        assert fresh.answer("patched", "e3") == ("precomputed", None, BASE)
        assert fresh.answer("patched", "e58") == ("precomputed", None, DELTA)
    assert fresh.get("patched", "e1").json()["generation"] == "20261129T0400Z-1"
    assert fresh.answer("patched", "e57")[:2] == ("live", "not_selected")


def live_generation(fresh: Fresh, model: str) -> str | None:
    """Of the worker that `fresh.get` asks."""
    told: str | None = fresh.api.client.get(f"/v1/models/{model}").json()["generation"]
    return told


def fresh_generations(fresh: Fresh, model: str) -> tuple[Generation, ...]:
    raw = fresh.redis.get(routes_key(model))
    assert raw is not None
    document = RoutesDocument.model_validate_json(raw)
    return document.versions[document.stable].generations
