"""The live tier slow, lost, refusing or shared: deadlines hold, work moves on, no caller suffers for another."""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis

from schemas.manifest import Freshness
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.wire_worker import Served, WireNode, served

Start = Callable[..., tuple[ApiProcess, list[WireNode], list[Served]]]
RECORDS = {f"e{place}": {"distance": float(place)} for place in range(100)}


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """An API on a model without a generation, served by as many nodes as asked."""
    stops: list[Callable[[], object]] = []

    def begin(
        nodes: int = 1, freshness: Freshness | None = None, **settings: object
    ) -> tuple[ApiProcess, list[WireNode], list[Served]]:
        small = Small(tmp_path, small_manifest(freshness=freshness), RECORDS, [])
        with Redis.from_url(redis_url) as redis:
            small.publish(redis, generation=None)
        workers = [served(small.raw, small_forward) for _ in range(nodes)]
        tier = [WireNode(worker).__enter__() for worker in workers]
        stops.extend(node.stop for node in tier)
        api = ApiProcess(tmp_path, redis_url=redis_url, nodes=[node.address for node in tier], **settings)
        stops.append(lambda: api.__exit__(None, None, None))
        api.start()
        wait_for(lambda: api.client.get("/readyz").json()["models"]["delay"].get("warm_replicas") == nodes)
        return api, tier, workers

    yield begin
    for stop in reversed(stops):
        stop()


def ask(api: ApiProcess, entity: str, **headers: str) -> httpx.Response:
    return api.client.get(f"/v1/models/delay/predictions/{entity}", headers=headers)


def test_what_a_lost_replica_may_have_executed_is_not_tried_on_the_next(start: Start) -> None:
    api, nodes, workers = start(nodes=2)
    for worker in workers:
        worker.delay_s = 0.5
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, api, f"e{place}") for place in range(6)]
        wait_for(lambda: sum(worker.requests for worker in workers) == 6, what="all at work")
        on_the_lost, on_the_other = (worker.requests for worker in workers)
        nodes[0].stop()
        answers = [future.result() for future in asked]
    assert min(on_the_lost, on_the_other) > 0
    lost = [answer for answer in answers if answer.status_code != 200]
    assert [(answer.status_code, answer.json()["code"]) for answer in lost] == [
        (503, "live_unavailable")
    ] * on_the_lost
    assert workers[1].requests == on_the_other
    workers[1].delay_s = 0.0
    assert {ask(api, f"e{place}").status_code for place in range(10, 16)} == {200}


def test_a_replica_that_never_answers_is_left_alone(start: Start) -> None:
    api, _, workers = start(nodes=2)
    workers[0].delay_s = 30.0
    # Three times what a stall of the machine may cost the other replica's answers.
    codes = [ask(api, f"e{place}", **{"X-Deadline-Ms": "300"}).json().get("code") for place in range(60)]
    assert codes.count("deadline_exceeded") >= 5
    assert codes[-10:].count("deadline_exceeded") <= 1  # that one is the trial after the pause
    assert set(codes) == {None, "deadline_exceeded"}
    workers[0].delay_s = 0.0
    tried = workers[0].requests
    distances = itertools.count()

    def has_returned() -> bool:
        # New ones each time: none is answered from Redis.
        asked = {"entity": "e1", "features": {"distance": next(distances), "airline": "DL"}}
        api.client.post("/v1/models/delay/predict", json=asked)
        return workers[0].requests > tried + 2

    wait_for(has_returned, what="its return")


def test_a_tier_that_comes_back(start: Start) -> None:
    api, nodes, workers = start()
    port = int(nodes[0].address.rpartition(":")[2])
    nodes[0].stop()
    wait_for(lambda: ask(api, "e1").status_code == 503, what="the loss")
    answer = ask(api, "e1")
    assert (answer.json()["code"], answer.headers["Retry-After"]) == ("live_unavailable", "1")
    assert api.client.get("/readyz").status_code == 503
    with WireNode(*workers, port=port):
        wait_for(lambda: ask(api, "e1").status_code == 200, what="a live answer")


def test_the_deadline_holds_and_cancels_the_work(start: Start) -> None:
    api, _, (worker,) = start()
    worker.delay_s = 30.0
    began = time.monotonic()
    answer = ask(api, "e1", **{"X-Deadline-Ms": "200"})
    assert time.monotonic() - began < 1
    assert (answer.status_code, answer.json()["code"]) == (503, "deadline_exceeded")
    assert "Retry-After" in answer.headers
    wait_for(lambda: worker.cancels == 1, what="the cancel frame")


def test_a_client_that_goes_away_cancels_its_work(start: Start) -> None:
    api, _, (worker,) = start()
    worker.delay_s = 30.0
    with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=0.5) as impatient:
        impatient.get(f"{api.base}/v1/models/delay/predictions/e1")
    wait_for(lambda: worker.cancels == 1, what="the cancel frame")


def test_identical_misses_share_one_row_and_not_one_fate(start: Start) -> None:
    """The first caller's short deadline, and a caller that goes away, fail neither each other nor the rest."""
    api, _, (worker,) = start()
    worker.delay_s = 0.6
    with ThreadPoolExecutor(6) as pool:
        leader = pool.submit(ask, api, "e1", **{"X-Deadline-Ms": "150"})
        wait_for(lambda: worker.requests == 1, what="the leader")
        followers = [pool.submit(ask, api, "e1") for _ in range(4)]
        with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=0.1) as impatient:
            impatient.get(f"{api.base}/v1/models/delay/predictions/e1")
        assert leader.result().json()["code"] == "deadline_exceeded"
        assert {future.result().status_code for future in followers} == {200}
    assert worker.requests <= 2


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("overloaded", 503, "overloaded"),
        ("live_unavailable", 503, "live_unavailable"),
        ("model_error", 500, "model_error"),
    ],
)
def test_refusals_of_a_replica(start: Start, code: str, status: int, told: str) -> None:
    api, _, (worker,) = start()
    worker.refuse_with = code
    answer = ask(api, "e1")
    assert (answer.status_code, answer.json()["code"]) == (status, told)
    assert answer.headers.get("Retry-After") == ("2" if status == 503 else None)


def test_a_refusal_is_tried_on_another_replica(start: Start) -> None:
    api, _, workers = start(nodes=2)
    workers[0].refuse_with = "not_ready"
    answers = [ask(api, f"e{place}") for place in range(20)]
    assert [answer.text for answer in answers if answer.status_code != 200] == []


def test_the_least_loaded_replica_is_asked(start: Start) -> None:
    api, _, (slow, fast) = start(nodes=2)
    slow.delay_s = 1.5
    with ThreadPoolExecutor(1) as pool:
        places = iter(range(100))
        while not slow.requests:
            stuck = pool.submit(ask, api, f"e{next(places)}")
            wait_for(lambda asked=stuck: asked.done() or slow.requests, what="an answer")  # type: ignore[misc]
        begun = fast.requests
        answers = [ask(api, f"e{next(places)}") for _ in range(12)]
        assert slow.requests == 1, "asked though it had more before it"
        assert fast.requests == begun + 12
        assert {answer.status_code for answer in [*answers, stuck.result()]} == {200}


def test_the_manifests_default_instead_of_an_error(start: Start) -> None:
    api, nodes, _ = start(freshness=Freshness(when_unavailable=("default",)))
    nodes[0].stop()
    wait_for(lambda: ask(api, "e1").json().get("source") == "default", what="the default")
    answer = ask(api, "e1").json()
    assert answer["outputs"] == {"late": 0.25, "minutes": 5.0}
    assert answer["miss_reason"] == "version_not_precomputed"


def test_values_older_than_the_model_allows_are_misses(start: Start) -> None:
    api, _, (worker,) = start(freshness=Freshness(max_age_s=1))
    assert ask(api, "e1").json()["source"] == "live"
    assert ask(api, "e1").json()["source"] == "cached"
    wait_for(lambda: ask(api, "e1").json()["miss_reason"] == "expired", what="age")
    assert worker.requests == 2


def test_no_generation_is_its_own_reason(start: Start) -> None:
    api, _, _ = start()
    answer = ask(api, "e1").json()
    assert (answer["miss_reason"], answer["generation"]) == ("version_not_precomputed", None)
