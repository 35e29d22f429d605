"""A switch of what is live is followed at once and whole; a document that cannot be used changes nothing."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from redis import Redis

from schemas.keys import routes_key
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.wire_worker import Served, WireNode, served

NEXT = "20261129T0200Z-1"


@dataclass
class Followed:
    """`client` connects anew for each request, so that any worker may answer it."""

    api: ApiProcess
    client: httpx.Client
    redis: "Redis[bytes]"
    first: Small
    second: Small
    worker: Served
    """Of the first."""

    def ask(self, entity: str = "e1") -> dict[str, object]:
        return dict(self.client.get(f"/v1/models/delay/predictions/{entity}").json())

    def revision(self) -> int:
        return int(self.client.get("/v1/models/delay").json()["revision"])

    def refusal(self) -> str:
        return str(self.api.client.get("/readyz").json()["models"]["delay"].get("refused_document", ""))


@pytest.fixture
def followed(redis_url: str, tmp_path: Path) -> Iterator[Followed]:
    records = {f"e{place}": {"distance": float(place)} for place in range(50)}
    other = {entity: {"distance": float(str(record["distance"])) + 1000} for entity, record in records.items()}
    first = Small(tmp_path, small_manifest(version="1"), records, list(records))
    second = Small(tmp_path, small_manifest(version="2"), other, list(other))
    workers = [served(model.raw, small_forward) for model in (first, second)]
    with (
        Redis.from_url(redis_url) as redis,
        WireNode(*workers) as node,
        ApiProcess(tmp_path, redis_url=redis_url, nodes=[node.address], workers="2", deadline_ms="20000") as api,
        httpx.Client(base_url=api.base, timeout=10, limits=httpx.Limits(max_keepalive_connections=0)) as client,
    ):
        first.publish(redis)
        api.wait_ready()
        wait_for(lambda: len(api.workers()) == 2)
        followed = Followed(api, client, redis, first, second, workers[0])
        wait_for(lambda: {followed.ask().get("version") for _ in range(20)} == {"1"}, 20, "every worker")
        yield followed


def test_a_switch_is_followed_by_every_worker(followed: Followed) -> None:
    """Also what a worker keeps in L1 is of the new generation then."""
    for _ in range(20):
        assert followed.ask()["outputs"] == {"late": 0.5, "minutes": 7.56}
    followed.second.publish(followed.redis, NEXT, revision=2, ordinal=2)
    wait_for(lambda: {str(followed.ask()["version"]) for _ in range(20)} == {"2"}, what="the switch")
    answer = followed.ask()
    assert (answer["generation"], answer["source"]) == (NEXT, "precomputed")
    assert answer["outputs"] == {"late": 0.5, "minutes": pytest.approx(67.56, abs=1e-4)}


def test_a_result_of_a_version_that_is_routed_no_longer_is_not_kept(followed: Followed) -> None:
    followed.worker.delay_s = 4.0

    def ask(distance: float) -> httpx.Response:
        body = {"entity": "mine", "features": {"distance": distance}}
        return httpx.post(f"{followed.api.base}/v1/models/delay/predict", json=body, timeout=20)

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(ask, 1.0)
        wait_for(lambda: followed.worker.requests, what="the work of the first version")
        followed.second.publish(followed.redis, NEXT, revision=2, ordinal=2)
        wait_for(lambda: {followed.ask()["version"] for _ in range(20)} == {"2"}, what="the switch")
        assert late.result().json()["version"] == "1"
    assert ask(2.0).json()["version"] == "2"
    wait_for(lambda: followed.redis.keys("hs:delay:i:2:*"), what="what the second version gave")
    assert followed.redis.keys("hs:delay:i:1:*") == []


def test_older_documents_are_ignored(followed: Followed) -> None:
    followed.second.publish(followed.redis, NEXT, epoch=5, revision=1, ordinal=2)
    wait_for(lambda: {str(followed.ask()["version"]) for _ in range(20)} == {"2"}, what="the new epoch")
    followed.first.publish(followed.redis, epoch=4, revision=99)
    followed.redis.publish("hs:{delay}:changed", "")
    until_s = time.monotonic() + 1.5  # every worker polls once a second, whether it has heard of it or not
    while time.monotonic() < until_s:
        assert followed.ask()["version"] == "2"


def test_another_document_of_the_same_order_is_taken(followed: Followed) -> None:
    """As after a kill of Redis that lost the last change, when the next one took its revision."""
    followed.first.publish(followed.redis, revision=2)
    followed.second.publish(followed.redis, NEXT, revision=2, ordinal=2)
    wait_for(lambda: {str(followed.ask()["version"]) for _ in range(20)} == {"2"}, what="the later change")


def test_documents_that_cannot_be_used_change_nothing(followed: Followed, tmp_path: Path) -> None:
    """The old one stays live and readiness tells why; a good one that follows is taken."""
    redis, key = followed.redis, routes_key("delay")
    followed.first.publish(redis, revision=2)
    wait_for(lambda: {followed.revision() for _ in range(20)} == {2}, what="revision 2 in every worker")
    good = followed.second.publish(redis, NEXT, epoch=1, revision=1, ordinal=2)  # too old to be taken
    good = good.model_copy(update={"revision": 3})
    version, generation = good.versions["2"], good.versions["2"].generations[0]

    def route(**changed: object) -> None:
        changed_version = version.model_copy(update=changed)
        followed.second.route(redis, good.model_copy(update={"versions": {"2": changed_version}}))

    def is_refused(why: str) -> None:
        wait_for(lambda: why in followed.refusal(), what=why)
        assert followed.ask()["version"] == "1"

    route(bundle_digest="f" * 64)
    is_refused("has digest")
    route(bundle_url="/etc")
    is_refused("allowed")
    route(bundle_url=str(tmp_path / "nothing"), bundle_digest="e" * 64)
    is_refused("has no manifest.json")
    route(generations=(generation.model_copy(update={"codec": 99}),))
    is_refused("codec 99")
    redis.set(key, b'{"format": 1, "model": "delay"}')
    is_refused("not valid")
    redis.set(key, good.model_dump_json().replace('"model":"delay"', '"model":"other"'))
    is_refused("model other")
    assert followed.api.client.get("/readyz").status_code == 200
    route()
    wait_for(lambda: followed.ask()["version"] == "2", what="the good document")
    wait_for(lambda: followed.refusal() == "")
