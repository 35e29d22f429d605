"""A switch as clients see it: within a second by every worker, and not by a request that began before it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from redis import Redis

from schemas.keys import routes_key
from schemas.routes import RoutesDocument
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import Served, WireNode, served

WORKERS = 2
_ASKED = 20  # of which each worker answers some
TAIL = {"entity": "tail", "features": {"distance": 7.0}}


class Routed(Small):
    """`is_told`: whether the message goes out that workers listen for."""

    is_told = True

    def route(self, redis: "Redis[bytes]", document: RoutesDocument) -> None:
        if self.is_told:
            super().route(redis, document)
        else:
            redis.set(routes_key(document.model), document.model_dump_json())


@dataclass
class Switched:
    """Two versions that take turns; each has all entities but `tail` in its generations."""

    api: ApiProcess
    redis: "Redis[bytes]"
    versions: tuple[Routed, Routed]
    served: tuple[Served, Served]
    revision: int = 1

    def ask(self, entity: str = "e1") -> dict[str, object]:
        return dict(self.api.client.get(f"/v1/models/delay/predictions/{entity}").json())

    def to_the_other(self, *, is_told: bool = True) -> float:
        """Seconds from the change of what is live until nobody says anything else."""
        self.revision += 1
        small = self.versions[(self.revision - 1) % 2]
        small.is_told = is_told
        small.publish(self.redis, f"20261129T0200Z-{self.revision}", revision=self.revision)
        began_s, wanted = time.monotonic(), {small.manifest.version}
        wait_for(lambda: {self.ask()["version"] for _ in range(_ASKED)} == wanted, what="the switch")
        return time.monotonic() - began_s


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    folder = tmp_path_factory.mktemp("switched")
    records = {f"e{place}": {"distance": float(place)} for place in range(20)} | {"tail": {"distance": 7.0}}
    first, second = (
        Routed(folder, small_manifest(version=version), records, list(records)[:-1]) for version in ("1", "2")
    )
    workers = [served(small.raw, small_forward) for small in (first, second)]
    with (
        RedisServer() as server,
        Redis.from_url(server.url) as redis,
        WireNode(*workers) as node,
        ApiProcess(folder, redis_url=server.url, nodes=[node.address], workers=str(WORKERS)) as api,
    ):
        first.publish(redis)
        api.wait_ready()
        wait_for(lambda: len(api.workers()) == WORKERS)
        yield Switched(api, redis, (first, second), (workers[0], workers[1]))


def test_every_worker_sees_it_within_a_second_also_where_the_message_is_lost(switched: Switched) -> None:
    # The best of three: other tests may keep the machine busy.
    assert min(switched.to_the_other() for _ in range(3)) < 0.5
    assert min(switched.to_the_other(is_told=False) for _ in range(3)) < 1.1


def test_a_request_in_flight_finishes_on_the_state_that_it_began_with(switched: Switched) -> None:
    before = switched.ask("tail")["version"]
    live = next(one for one in switched.served if one.manifest.version == before)
    live.delay_s, asked_before = 0.8, live.requests
    with ThreadPoolExecutor(1) as pool:
        # By its features, so that no written-back result of before answers.
        asked = pool.submit(switched.api.client.post, "/v1/models/delay/predict", json=TAIL)
        wait_for(lambda: live.requests > asked_before, what="a request that is in flight")
        took_s = switched.to_the_other()
        assert not asked.done(), f"the switch took {took_s:.1f} s"
        answer = asked.result().json()
    live.delay_s = 0.0
    assert (answer["version"], answer["source"]) == (before, "live")
    assert switched.ask()["version"] != before
