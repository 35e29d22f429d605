"""A real API on a real node, both traced to a receiver, and the site; half of the entities are precomputed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

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
from tests.support.site import Site, running_site
from tests.support.watched import sample, write_drift
from tests.tiers.receiver import OtlpReceiver

RECORDS = {f"e{place}": {"distance": 100.0 * place, "delay": 1.0, "airline": "AA"} for place in range(40)}
HOT = tuple(RECORDS)[:20]


@dataclass
class Tiers:
    """What runs."""

    api: ApiProcess
    node: NodeProcess
    receiver: OtlpReceiver
    site: Site

    def get(self, entity: str, **headers: str) -> httpx.Response:
        return self.api.client.get(f"/v1/models/tiny/predictions/{entity}", headers=headers)

    def wait_until_folded(self, answers: float) -> None:
        """Until the API tells of more answers than these."""
        wait_for(lambda: self.scraped()[0].total("hotset_answers_total") > answers, what="a fold of the log")

    @property
    def addresses(self) -> tuple[str, str, str]:
        """Of the API, of the node, and of the site, in the order of Prometheus' jobs."""
        return self.api.base, self.node.http_url, self.site.url

    def scraped(self) -> tuple[Scraped, Scraped, Scraped]:
        """In the order of the addresses."""
        return tuple(Scraped(httpx.get(f"{base}/metrics").text) for base in self.addresses)


def _stored(tensors: Mapping[str, Tensor]) -> Float32Array:
    """(n, 2): no test here compares a hit with its live result."""
    return np.full((len(next(iter(tensors.values()))), 2), 0.5, np.float32)


@pytest.fixture(scope="package")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiers]:
    folder = tmp_path_factory.mktemp("tiers")
    bundle = linear_bundle(folder / "tiny")
    small = Small(folder / "small", bundle.manifest, RECORDS, HOT, _stored)
    small.url, small.digest = str(bundle.folder), bundle.digest
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    write_drift(folder, "tiny", midnight, {"hits": sample(50, 1), "tail": sample(2_000, 2, shift=600.0)})
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
        running_site(folder, REDIS_URL=server.url, MODELS='["tiny"]') as site,
    ):
        small.publish(redis, computed_at_ms=redis_ms(redis))
        api.wait_ready()
        wait_for(lambda: api.client.get("/readyz").json()["models"]["tiny"]["warm_replicas"], 60, "a warm replica")
        yield Tiers(api, node, receiver, site)


@pytest.fixture(scope="package")
def asked(tiers: Tiers) -> list[Scraped]:
    """Both tiers, after each kind of answer, and the site."""
    for entity in ("e4", "e33", "e33", "nobody"):
        tiers.get(entity)

    def both() -> list[Scraped] | None:
        api, node, site = tiers.scraped()
        told = [
            api.total("hotset_answers_total", source=one) for one in ("precomputed", "cached", "live", "error")
        ]
        # A fold counts answers before it sets levels: a scrape may come between.
        told += [api.total("hotset_generation_rows"), node.total("hotset_inference_rows_total")]
        return [api, node, site] if all(told) else None

    return list(wait_for(both, what="the metrics of all that was asked"))
