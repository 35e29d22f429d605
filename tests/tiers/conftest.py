"""A real API on a real node, both traced to a receiver of OTLP; half of the model's entities are precomputed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
from redis import Redis

from schemas.wire import Float32Array, Tensor
from tests.support.api_process import ApiProcess, wait_for
from tests.support.bundles import linear_bundle
from tests.support.inference import NodeProcess, address_of
from tests.support.nights import redis_ms
from tests.support.publish_small import Small
from tests.support.redis_server import RedisServer
from tests.support.scraped import Scraped
from tests.tiers.receiver import OtlpReceiver

RECORDS = {f"e{place}": {"distance": 100.0 * place, "delay": 1.0, "airline": "AA"} for place in range(40)}
HOT = tuple(RECORDS)[:20]


@dataclass
class Tiers:
    """What runs."""

    api: ApiProcess
    node: NodeProcess
    receiver: OtlpReceiver

    def get(self, entity: str, **headers: str) -> httpx.Response:
        return self.api.client.get(f"/v1/models/tiny/predictions/{entity}", headers=headers)

    def scraped(self) -> tuple[Scraped, Scraped]:
        """Of the API, and of the node."""
        return tuple(Scraped(httpx.get(f"{base}/metrics").text) for base in (self.api.base, self.node.http_url))


def _stored(tensors: Mapping[str, Tensor]) -> Float32Array:
    """(n, 2): no test here compares a hit with its live result."""
    return np.full((len(next(iter(tensors.values()))), 2), 0.5, np.float32)


@pytest.fixture(scope="package")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiers]:
    folder = tmp_path_factory.mktemp("tiers")
    bundle = linear_bundle(folder / "tiny")
    small = Small(folder / "small", bundle.manifest, RECORDS, HOT, _stored)
    small.url, small.digest = str(bundle.folder), bundle.digest
    with (
        RedisServer() as server,
        Redis.from_url(server.url) as redis,
        OtlpReceiver() as receiver,
        NodeProcess.run(folder / "cache", [address_of(bundle)], [folder], otlp_url=receiver.url) as node,
        ApiProcess(
            folder,
            redis_url=server.url,
            models=["tiny"],
            nodes=[node.wire_address],
            otlp_url=receiver.url,
            trace_share="0",
        ) as api,
    ):
        small.publish(redis, computed_at_ms=redis_ms(redis))
        api.wait_ready()
        wait_for(lambda: api.client.get("/readyz").json()["models"]["tiny"]["warm_replicas"], 60, "a warm replica")
        yield Tiers(api, node, receiver)
