"""One running API with a hot and a cold half of a small model, and two models whose output is a logarithm."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.api.fresh_world import TOKEN, Fresh, publish
from tests.support.api_process import ApiProcess
from tests.support.nights import redis_ms
from tests.support.publish_small import Small, log_forward, log_manifest, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.wire_worker import Served, WireNode, served

# Ids that something on the way would change: each is an entity of its own, with a value of its own.
AWKWARD = (
    "a/b", "a%2Fb", "a+b", "a b", " a", "a ", "a?b", "a#b", "a;b", "a=b&c", "urn:x:AQ+/==", "\u00e9", "e\u0301",
    "DL1", "dl1", "7", "07", "007", "7.0", "1e5", "100000", "+7", "9007199254740992", "9007199254740993", "null",
    "2026-11-29", "a\x00b", "\x00" + "z" * 70, "\u65e5\u672c", "\U0001f6eb", "x" * 256, "\u65e5" * 85,
    "a\nb", "..x", "%",
)  # fmt: skip


@dataclass
class World:
    """What runs. `small` is model `007`: half of its entities are precomputed, every one has features."""

    api: ApiProcess
    redis: "Redis[bytes]"
    small: Small
    served: Served
    logs: dict[str, Served]

    @property
    def client(self) -> httpx.Client:
        return self.api.client


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("api")
    small = awkward_model(folder)
    logs = [
        Small(folder, log_manifest("log"), {"ten": {"x": 10.0}, "zero": {"x": 0.0}}, ["ten"], log_forward),
        Small(folder, log_manifest("safe", default=True, degrade=True), {"zero": {"x": 0.0}}, [], log_forward),
    ]
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        small.publish(redis)
        logs[0].publish(redis)
        logs[1].publish(redis, generation=None)
        workers = [served(model.raw, model.forward) for model in (small, *logs)]
        settings = {"redis_url": server.url, "models": ["007", "log", "safe", "unborn"], "l1_bytes": "0"}
        with (
            WireNode(*workers) as node,
            ApiProcess(folder, nodes=[node.address], **settings) as api,
        ):
            api.wait_ready()
            yield World(api, redis, small, workers[0], {"log": workers[1], "safe": workers[2]})


def awkward_model(folder: Path, model: str = "007") -> Small:
    names = [*AWKWARD, *(f"{prefix}{place}" for prefix in ("hot", "cold") for place in range(150))]
    records = {
        name: {
            "distance": float(place),
            "edge": (0.0, 0.2)[place % 2],
            "airline": ("AA", "DL", "UA", "ZZ")[place % 4],
        }
        for place, name in enumerate(names)
    }
    hot = [*AWKWARD[::2], *(name for name in names if name.startswith("hot"))]
    return Small(folder, small_manifest(model), records, hot, small_forward)


@pytest.fixture(scope="package")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Of two workers. A request may have one stored answer computed anew, and the next after five seconds."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "token").write_text(f"{TOKEN}\n")
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        smalls, tier = publish(folder, redis)
        settings = {"redis_url": server.url, "models": list(smalls), "workers": "2", "no_cache_per_s": "0.2"}
        with (
            WireNode(*tier.values()) as node,
            ApiProcess(folder, nodes=[node.address], admin_token_file=str(folder / "token"), **settings) as api,
        ):
            api.wait_ready()
            yield Fresh(api, redis, smalls, tier, redis_ms(redis))
