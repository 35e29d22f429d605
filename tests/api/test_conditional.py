"""ETag, Age, Cache-Control, Vary and 304 of answers to GET."""

from tests.api.fresh_world import BASE, Fresh
from tests.support.request_log_reading import read_log


def test_headers_of_a_kept_answer(fresh: Fresh) -> None:
    answer = fresh.get("aged", "e12")
    assert answer.headers["Cache-Control"] == "private, max-age=600"
    assert answer.headers["Vary"].lower() == "x-deadline-ms"
    assert int(answer.headers["Age"]) <= 2
    plain = fresh.get("plain", "e12")
    assert plain.headers["Cache-Control"] == "private, max-age=0"
    assert abs(int(plain.headers["Age"]) - plain.json()["age_s"]) <= 1
    post = fresh.api.client.post("/v1/models/plain/predict", json={"entity": "e12"})
    assert "ETag" not in post.headers


def test_the_tag_is_of_the_answer_alone(fresh: Fresh) -> None:
    tags = {fresh.get("plain", "e13", **{"X-Request-Id": name}).headers["ETag"] for name in ("a", "b", "c")}
    assert len(tags) == 1
    assert tags.pop().startswith('W/"')
    assert fresh.get("plain", "e13").headers["ETag"] != fresh.get("asked", "e13").headers["ETag"]
    before = fresh.get("plain", "e14").headers["ETag"]
    fresh.invalidate("plain", "e14")
    assert fresh.get("plain", "e14").headers["ETag"] != before


def test_not_modified(fresh: Fresh) -> None:
    full = fresh.get("plain", "e15")
    tag = full.headers["ETag"]
    for wanted in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
        answer = fresh.get("plain", "e15", **{"If-None-Match": wanted})
        assert (answer.status_code, answer.content) == (304, b""), wanted
        for name in ("ETag", "Cache-Control", "Vary"):
            assert answer.headers[name] == full.headers[name]
        assert "X-Request-Id" in answer.headers
    for wanted in ('"another"', 'W/"x"', ""):
        answer = fresh.get("plain", "e15", **{"If-None-Match": wanted})
        assert (answer.status_code, answer.json()["outputs"]["minutes"]) == (200, BASE), wanted
    # The connection goes on being read as it should.
    assert fresh.get("plain", "e16").json()["entity"] == "e16"


def test_problems_and_defaults_are_not_kept(fresh: Fresh) -> None:
    missing = fresh.get("plain", "nobody", **{"If-None-Match": "*"})
    assert (missing.status_code, missing.headers["Cache-Control"]) == (404, "no-store")
    assert "ETag" not in missing.headers
    fresh.tier["kept"].refuse_with = "live_unavailable"
    try:
        default = fresh.get("kept", "e57")
        assert (default.json()["source"], default.headers["Cache-Control"]) == ("default", "no-store")
    finally:
        fresh.tier["kept"].refuse_with = None


def test_a_304_is_in_the_request_log(fresh: Fresh) -> None:
    tag = fresh.get("plain", "e17").headers["ETag"]
    fresh.get("plain", "e17", **{"If-None-Match": tag, "X-Request-Id": "not-modified-1"})
    rows = read_log(fresh.api, "plain", lambda rows: "not-modified-1" in {row["request_id"] for row in rows})
    (row,) = [row for row in rows if row["request_id"] == "not-modified-1"]
    assert (row["status"], row["source"], row["entity"]) == (304, "precomputed", "e17")
