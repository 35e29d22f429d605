"""What a soak runs against: the API as a process of two workers, Valkey behind the proxy, and a live tier."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from tests.soak.known import MODEL, Era, marking, model, new_eras
from tests.soak.proxy import FaultyProxy, Weather
from tests.support.api_process import ROOT, ApiProcess, wait_for
from tests.support.nights import redis_ms
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import Served, WireNode, served

WORKERS = 2
_UNCHECKED = ROOT / "tests" / "soak" / "unchecked"
# Some answers come from L1; it is too small for most.
_L1_BYTES = 30_000
# Threads of this process are the clients, the proxy and the live tier: none is to wait long for its turn.
_SWITCH_INTERVAL_S = 0.0005
_FOLDED_S = 2.0  # workers fold once a second


class UncheckedApi(ApiProcess):
    """Without the check by which a stored value tells whose it is."""

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": f"{_UNCHECKED}:{ROOT}"}


@dataclass
class Stack:
    """What runs. `tier` is by version; `eras` of which the first is live at the start."""

    folder: Path
    api: ApiProcess
    redis: "Redis[bytes]"
    proxy: FaultyProxy
    node: WireNode
    tier: Mapping[str, Served]
    eras: list[Era]

    def publish(self, era: Era) -> None:
        """A generation whose values carry the era's mark, computed now, and the routes to it."""
        computed_at_ms = redis_ms(self.redis)
        era.begin(computed_at_ms)
        revision = 1 + self.eras.index(era)
        model(self.folder, era.version, era.stored).publish(
            self.redis, era.generation, revision=revision, ordinal=era.ordinal, computed_at_ms=computed_at_ms
        )

    def have_all_taken(self, era: Era) -> bool:
        """Whether each worker has told that it follows the routes to this era."""
        revision = 1 + self.eras.index(era)
        lines = (self.api.folder / "api.log").read_bytes().splitlines()
        taken = [orjson.loads(line) for line in lines if b'"routes taken"' in line]
        return len({line["pid"] for line in taken if line["revision"] == revision}) == WORKERS

    @property
    def foreign(self) -> int:
        """Values that came to the wrong asker and were found out, also where no client stayed for the answer."""
        return self._counted("hotset_misses_total", reason="foreign")

    def wait_for_counts(self) -> None:
        """Until nothing has been added for so long that every worker has folded its counts."""
        before = -1
        while (now := self._counted("hotset_answers_total")) != before:
            before = now
            time.sleep(_FOLDED_S)

    def _counted(self, name: str, **labels: str) -> int:
        """Of both workers together."""
        families = text_string_to_metric_families(self.api.client.get("/metrics").text)
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(int(sample.value) for sample in samples if labels.items() <= sample.labels.items())


@contextmanager
def running(folder: Path, seed: int, weather: Weather, kind: type[ApiProcess] = ApiProcess) -> Iterator[Stack]:
    """Ready, in its first era; from then on in this weather."""
    eras, kept_interval_s = new_eras(), sys.getswitchinterval()
    tier = {era.version: served(model(folder, era.version, era.live).raw, marking(era.live)) for era in eras}
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        with (
            RedisServer() as server,
            Redis.from_url(server.url) as redis,
            FaultyProxy(server.port, seed) as proxy,
            WireNode(*tier.values()) as node,
            _started(kind(folder, **_settings(proxy, node))) as api,
        ):
            stack = Stack(folder, api, redis, proxy, node, tier, eras)
            stack.publish(eras[0])
            api.wait_ready()
            wait_for(lambda: stack.have_all_taken(eras[0]), 20, "the first routes")
            proxy.weather = weather
            yield stack
    finally:
        sys.setswitchinterval(kept_interval_s)


@contextmanager
def _started(api: ApiProcess) -> Iterator[ApiProcess]:
    try:
        with api:
            yield api
    finally:
        api.kill()  # also where it did not come up


def _settings(proxy: FaultyProxy, node: WireNode) -> dict[str, object]:
    return {
        "redis_url": f"redis://127.0.0.1:{proxy.port}/0",
        "models": [MODEL],
        "nodes": [node.address],
        "workers": str(WORKERS),
        "l1_bytes": str(_L1_BYTES),
        "lookup_budget_ms": "20",
    }
