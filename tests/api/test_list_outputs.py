"""Vectors and top-k lists by the real API: hits, live and kept answers are the same, and damage is a miss."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from redis import Redis

from runtime.program import load_program
from schemas.keys import bucket_count, bucket_key, bucket_of, field_of
from schemas.outputs import AnswerMaker
from tests.support.api_process import ApiProcess, wait_for
from tests.support.list_bundles import TOPICS, topics_bundle, vector_bundle
from tests.support.publish_small import GENERATION, Small
from tests.support.redis_server import RedisServer
from tests.support.request_log_reading import read_log
from tests.support.wire_worker import Served, WireNode, served

MODELS = ("embedder", "topics")


@dataclass
class Lists:
    api: ApiProcess
    redis: "Redis[bytes]"
    models: dict[str, Small]
    served: dict[str, Served]

    def get(self, model: str, entity: str) -> dict[str, Any]:
        answer = self.api.client.get(f"/v1/models/{model}/predictions/{entity}")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def expected(self, model: str, entity: str) -> dict[str, Any]:
        """By a bare call of the exported program."""
        small = self.models[model]
        (row,) = small.outputs([small.records[entity]])
        return dict(AnswerMaker(small.manifest.output).answer(row.tolist()).outputs)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lists]:
    folder = tmp_path_factory.mktemp("lists")
    records = {
        f"{kind}{place}": {"x": float(place % 13 - 6), "y": float(place % 5)}
        for kind in ("hot", "cold")
        for place in range(130)
    }
    models = {}
    for name, build in zip(MODELS, (vector_bundle, topics_bundle), strict=True):
        bundle = build(folder / "built" / name)
        program = load_program(bundle.folder, bundle.manifest)
        hot = [entity for entity in records if entity.startswith("hot")]
        models[name] = Small(folder, bundle.manifest, records, hot, program)
    workers = {name: served(model.raw, model.forward) for name, model in models.items()}  # type: ignore[arg-type]
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        for model in models.values():
            model.publish(redis)
        with (
            WireNode(*workers.values()) as node,
            ApiProcess(
                folder, redis_url=server.url, models=list(MODELS), nodes=[node.address], log_sample="1.0"
            ) as api,
        ):
            api.wait_ready()
            yield Lists(api, redis, models, workers)


@pytest.mark.parametrize("model", MODELS)
def test_hits_live_kept_and_brought_answers_are_the_same(lists: Lists, model: str) -> None:
    for place in range(0, 130, 9):
        hit = lists.get(model, f"hot{place}")
        live = lists.get(model, f"cold{place}")
        assert (hit["source"], live["source"]) == ("precomputed", "live")
        assert hit["outputs"] == live["outputs"] == lists.expected(model, f"hot{place}")
        assert (hit["label"], hit["confidence"]) == (live["label"], live["confidence"])
    kept = wait_for(lambda: (found := lists.get(model, "cold9"))["source"] == "cached" and found)
    assert kept["outputs"] == lists.expected(model, "cold9")
    body = {"entity": "hot18", "features": lists.models[model].records["hot18"]}
    brought = lists.api.client.post(f"/v1/models/{model}/predict", json=body).json()
    assert brought["source"] == "live"
    assert brought["outputs"] == lists.expected(model, "hot18")


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_of_both_is_answered_in_order(lists: Lists, model: str) -> None:
    names = [f"{kind}{place}" for place in range(60, 120) for kind in ("hot", "cold")]
    answer = lists.api.client.post(f"/v1/models/{model}/predictions:batch", json={"items": names})
    results = answer.json()["results"]
    assert [result["outputs"] for result in results] == [lists.expected(model, name) for name in names]


def test_the_answers_are_lists_as_the_document_of_the_api_says(lists: Lists) -> None:
    outputs = lists.get("embedder", "hot1")["outputs"]
    assert isinstance(outputs["late"], float)
    assert [type(value) for value in outputs["embedding"]] == [float] * 64
    topics = lists.get("topics", "hot1")["outputs"]["topics"]
    assert [sorted(one) for one in topics] == [["label", "score"]] * 5
    assert {one["label"] for one in topics} <= set(TOPICS)
    assert [one["score"] for one in topics] == sorted((one["score"] for one in topics), reverse=True)


@pytest.mark.parametrize("model", MODELS)
def test_the_request_log_has_the_stored_row(lists: Lists, model: str) -> None:
    small = lists.models[model]
    lists.get(model, "hot5")
    rows = read_log(lists.api, model, lambda rows: [row for row in rows if row["entity"] == "hot5"])
    row = next(row for row in rows if row["entity"] == "hot5")
    assert np.array(row["outputs"], np.float32).tolist() == small.outputs([small.records["hot5"]])[0].tolist()


def test_a_stored_label_that_is_none_is_a_miss_of_its_entity_only(lists: Lists) -> None:
    for entity, place in (("hot120", 50.0), ("hot121", -1.0), ("hot122", 1.5)):
        raw = entity.encode()
        key = bucket_key("topics", "1", GENERATION, bucket_of(raw, bucket_count(130)))
        stored = lists.redis.hget(key, field_of(raw))
        lists.redis.hset(key, field_of(raw), stored[:13] + np.float32(place).tobytes() + stored[17:])
    names = [f"hot{place}" for place in range(119, 124)]
    answer = lists.api.client.post("/v1/models/topics/predictions:batch", json={"items": names}).json()["results"]
    assert [one["outputs"] for one in answer] == [lists.expected("topics", name) for name in names]
    assert [one["miss_reason"] for one in answer] == [None, "corrupt", "corrupt", "corrupt", None]


def test_a_score_that_is_not_finite_is_answered_by_nobody(lists: Lists) -> None:
    """3e38 overflows in some of the 50 columns; the five best alone would be fine numbers or infinite ones."""
    body = {"entity": "e", "features": {"x": 3e38, "y": 0.0}}
    assert lists.api.client.post("/v1/models/topics/predict", json=body).json()["source"] == "default"
    assert lists.api.client.post("/v1/models/embedder/predict", json=body).json()["code"] == "model_error"


def test_the_default_is_a_list_too(lists: Lists) -> None:
    lists.served["topics"].refuse_with = "not_ready"
    try:
        body = {"entity": "e", "features": {"x": 77.0}}
        answer = lists.api.client.post("/v1/models/topics/predict", json=body).json()
    finally:
        lists.served["topics"].refuse_with = None
    assert answer["source"] == "default"
    assert answer["outputs"]["topics"][:2] == [
        {"label": "topic-07", "score": 0.5},
        {"label": "topic-03", "score": 0.25},
    ]
