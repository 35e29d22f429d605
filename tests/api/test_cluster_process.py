"""A real API process on a real cluster: every entity a hit; a dead node costs its own entities theirs, no more."""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from schemas.keys import bucket_count, bucket_key, bucket_of, feature_key, routes_key
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_cluster import Written, written
from tests.support.publish_small import GENERATION
from tests.support.redis_cluster import ClusterServers, running_cluster
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import WireNode, served

HOT, COLD = 3000, 60
BUCKETS = bucket_count(HOT)


@dataclass
class Clustered:
    api: ApiProcess
    servers: ClusterServers
    model: Written

    def __post_init__(self) -> None:
        outputs = self.model.outputs(self.model.records.values())
        self.right = {
            entity: {"late": round(float(late), 6), "minutes": round(float(minutes), 6)}
            for entity, (late, minutes) in zip(self.model.records, outputs, strict=True)
        }
        keys = [bucket_key(self.model.manifest.name, "1", GENERATION, bucket) for bucket in range(BUCKETS)]
        self._nodes = [self.servers.node_of(key.encode()) for key in keys]

    def ask(self, entity: str) -> dict[str, object]:
        path = f"/v1/models/{self.model.manifest.name}/predictions/{entity}"
        return dict(self.api.client.get(path).json())

    def batch(self, entities: Sequence[str]) -> list[dict[str, object]]:
        """Right answers, in order."""
        body = {"items": list(entities)}
        path = f"/v1/models/{self.model.manifest.name}/predictions:batch"
        answer = self.api.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        results = list(answer.json()["results"])
        assert [result["entity"] for result in results] == list(entities)
        assert all(self.is_right(result) for result in results)
        return results

    def is_right(self, answer: dict[str, object]) -> bool:
        return answer["outputs"] == self.right[str(answer["entity"])]

    def node_of(self, entity: str) -> RedisServer:
        """The node that holds the entity's bucket."""
        return self._nodes[bucket_of(entity.encode(), BUCKETS)]


def clustered(folder: Path, servers: ClusterServers, name: str) -> Iterator[Clustered]:
    model = written(folder, servers.url, name, HOT, COLD)
    worker = served(model.raw, model.forward)
    settings = {"redis_url": servers.url, "models": [name], "l1_bytes": "0"}
    with WireNode(worker) as node, ApiProcess(folder, nodes=[node.address], **settings) as api:
        model.publish_night()
        api.wait_ready()
        wait_for(lambda: api.client.get("/readyz").json()["redis"] == "connected", what="all nodes")
        wait_for(lambda: api.client.get("/readyz").json()["models"][name]["features_without_redis"])
        yield Clustered(api, servers, model)


@pytest.fixture(scope="module")
def running(redis_cluster: ClusterServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clustered]:
    yield from clustered(tmp_path_factory.mktemp("cluster"), redis_cluster, "spread")


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Clustered]:
    with running_cluster() as servers:
        yield from clustered(tmp_path, servers, "mortal")


def test_every_entity_is_a_hit_from_the_node_that_holds_it(running: Clustered) -> None:
    assert len({running.node_of(entity).port for entity in running.model.hot}) == 3
    hot = running.model.hot
    results = [one for start in range(0, HOT, 1000) for one in running.batch(hot[start : start + 1000])]
    assert Counter(result["source"] for result in results) == {"precomputed": HOT}


def test_a_miss_is_answered_live_and_written_back_to_its_node(running: Clustered) -> None:
    cold = [f"cold{place}" for place in range(COLD)]
    assert {result["source"] for result in running.batch(cold)} == {"live"}
    wait_for(lambda: {result["source"] for result in running.batch(cold)} == {"cached"}, what="write-backs")


def test_a_switch_is_followed(running: Clustered) -> None:
    running.model.publish_night("20261129T0200Z-1", revision=2)
    wait_for(lambda: running.ask("hot7")["generation"] == "20261129T0200Z-1", 5, "the switch")
    assert running.ask("hot8")["source"] == "precomputed"


@pytest.mark.fault
def test_a_node_killed_under_load_and_brought_back(mortal: Clustered) -> None:
    """Always the right answer. Entities of the other nodes stay hits; its own are hits again once it is back."""
    victim = mortal.servers.nodes[1]
    mine = [entity for entity in mortal.model.hot[:600] if mortal.node_of(entity) is victim]
    others = [entity for entity in mortal.model.hot[:600] if entity not in mine]
    assert len(mine) > 50
    with Load(mortal, mine[:40] + others[:80]) as load:
        wait_for(lambda: load.asked > 200, what="load")
        assert set(load.sources) == {"precomputed"}
        victim.stop()
        wait_for(lambda: load.sources["live"] > 20, what="misses")
        asked = load.asked
        wait_for(lambda: load.asked > asked + 500, what="load without the node")
        assert {result["source"] for result in mortal.batch(others)} == {"precomputed"}
        without = mortal.batch(mine)
        assert {result["source"] for result in without} <= {"live", "cached"}
        reasons = {result["miss_reason"] for result in without}
        assert reasons <= {"breaker_open", "connection_lost", "redis_timeout"}, reasons
        assert mortal.api.client.get("/readyz").json()["redis"] != "connected"
        wait_for(lambda: nodes_open(mortal) == 2, what="the count of nodes")
        victim.start()
        wait_for(lambda: mortal.api.client.get("/readyz").json()["redis"] == "connected", what="the node")
        wait_for(lambda: "live" not in {one["source"] for one in mortal.batch(mine)}, what="its hits")
        untouched = [entity for entity in mortal.model.hot[600:900] if mortal.node_of(entity) is victim]
        assert {result["source"] for result in mortal.batch(untouched)} == {"precomputed"}
    assert load.wrong == []
    assert set(load.entities_live) <= set(mine)


@pytest.mark.fault
def test_the_node_of_routes_and_features_killed(mortal: Clustered) -> None:
    """What is live stays what it was; features come from the snapshot where their bucket is away."""
    victim = mortal.servers.node_of(routes_key("mortal").encode())
    buckets = bucket_count(HOT + COLD)
    key = {entity: feature_key("mortal", GENERATION, bucket_of(entity.encode(), buckets)) for entity in cold()}
    mine = [entity for entity in cold() if mortal.servers.node_of(key[entity].encode()) is victim]
    assert mine
    other = next(entity for entity in mortal.model.hot if mortal.node_of(entity) is not victim)
    victim.stop()
    assert all(result["source"] == "live" for result in mortal.batch(mine))
    assert mortal.ask(other)["source"] == "precomputed"
    victim.start()
    wait_for(lambda: mortal.api.client.get("/readyz").json()["redis"] == "connected", what="the node")


def cold() -> list[str]:
    return [f"cold{place}" for place in range(COLD)]


def nodes_open(running: Clustered) -> float:
    name = 'hotset_level{part="redis_lookup",what="nodes_open"} '
    lines = running.api.client.get("/metrics").text.splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


class Load:
    """Use as `with`: threads that ask for one entity after the other and check every answer."""

    def __init__(self, running: Clustered, entities: Sequence[str], threads: int = 3) -> None:
        self._running, self._entities = running, entities
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(seed,)) for seed in range(threads)]
        self.asked = 0
        self.sources: Counter[object] = Counter()
        self.entities_live: Counter[str] = Counter()
        self.wrong: list[object] = []

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, seed: int) -> None:
        rng = random.Random(seed)
        with httpx.Client(base_url=self._running.api.base, timeout=10) as client:
            while not self._ended.is_set():
                entity = rng.choice(self._entities)
                answer = client.get(f"/v1/models/{self._running.model.manifest.name}/predictions/{entity}")
                told = answer.json()
                if answer.status_code != 200 or told["entity"] != entity or not self._running.is_right(told):
                    self.wrong.append((answer.status_code, told))
                    continue
                self.asked += 1
                self.sources[told["source"]] += 1
                if told["source"] == "live":
                    self.entities_live[entity] += 1
