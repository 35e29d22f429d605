"""One API of two workers and seven small models that differ in freshness; each test has entities of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from redis import Redis

from schemas.manifest import Freshness
from tests.support.api_process import ApiProcess
from tests.support.nights import load, redis_ms, route
from tests.support.publish_small import Small, small_forward, small_manifest
from tests.support.wire_worker import Served

TOKEN = "one of the tests"
RECORDS = {f"e{place}": {"distance": float(place)} for place in range(60)}
# Stored answers are minutes that the model itself never gives, so that each tells where it came from.
BASE, DELTA, OLDER_DELTA, OLDER = 1000.0, 2000.0, 3000.0, 4000.0
MINUTE_MS = 60_000
MODELS: Mapping[str, Freshness] = {
    "plain": Freshness(),
    "asked": Freshness(),
    "batched": Freshness(),
    "aged": Freshness(max_age_s=600),
    "renewed": Freshness(max_age_s=600, stale_while_revalidate_s=3600),
    "kept": Freshness(max_age_s=600, max_stale_s=7200, when_unavailable=("stale", "default")),
    "patched": Freshness(),
}


@dataclass
class Fresh:
    """What runs. In every generation are `e0` to `e39`, in the previous one `e40` to `e49` too."""

    api: ApiProcess
    redis: "Redis[bytes]"
    smalls: Mapping[str, Small]
    tier: Mapping[str, Served]
    now_ms: int

    def get(self, model: str, entity: str, cache_control: str | None = None, **headers: str) -> httpx.Response:
        """On a connection that is kept: always of one worker."""
        if cache_control is not None:
            headers["Cache-Control"] = cache_control
        return self.api.client.get(f"/v1/models/{model}/predictions/{entity}", headers=headers)

    def answer(self, model: str, entity: str, cache_control: str | None = None) -> tuple[object, object, float]:
        """Source, miss reason and minutes."""
        document = self.get(model, entity, cache_control).json()
        return document["source"], document["miss_reason"], document["outputs"]["minutes"]

    def minutes(self, entity: str) -> float:
        """As the model gives them."""
        return round(float(self.smalls["plain"].outputs([RECORDS[entity]])[0][1]), 6)

    def invalidate(self, model: str, *entities: str, token: str = TOKEN) -> httpx.Response:
        return self.api.client.post(
            f"/v1/models/{model}/predictions:invalidate",
            json={"entities": list(entities)},
            headers={"Authorization": f"Bearer {token}"},
        )


def publish(folder: Path, redis: "Redis[bytes]") -> tuple[dict[str, Small], dict[str, Served]]:
    """Generations of 20 minutes and of an hour ago, of each model."""
    now_ms = redis_ms(redis)
    smalls, tier = {}, {}
    for model, freshness in MODELS.items():
        small = Small(folder, small_manifest(model, freshness=freshness), RECORDS, [])
        base = {f"e{place}": BASE for place in range(40)}
        older = {f"e{place}": OLDER for place in range(50)}
        generations = [
            load(redis, small, "20261129T0200Z-1", 2, now_ms - 20 * MINUTE_MS, base),
            load(redis, small, "20261128T0200Z-1", 1, now_ms - 60 * MINUTE_MS, older),
        ]
        route(redis, small, generations)
        served = Served(small.manifest, small.digest, small_forward)
        smalls[model], tier[model] = small, served
    return smalls, tier
