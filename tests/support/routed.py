"""What Redis holds when a model is routed and a replica is up."""

import json

import redis

from schemas.keys import REPLICAS_KEY, routes_key
from schemas.routes import Activation, Generation
from schemas.transitions import first_document

GENERATION = "20261129T0200Z-1"


def route(client: redis.Redis, model: str, rows: int = 603, age_s: int = 3600, version: str = "7") -> None:
    """A routes document of one version whose generation was computed `age_s` ago."""
    now_ms = redis_now_ms(client)
    generation = Generation(
        id=GENERATION, ordinal=1, buckets=7, codec=1, rows=rows, computed_at_ms=now_ms - age_s * 1000
    )
    offer = Activation(
        model=model,
        version=version,
        bundle_url="bundles/7",
        bundle_digest="a" * 64,
        generation=generation,
        features=None,
        token=1,
    )
    client.set(routes_key(model), first_document(offer, now_ms).model_dump_json())


def announce(client: redis.Redis, node: str, **version: object) -> None:
    """What a node writes of one version it serves."""
    document = {"at_ms": redis_now_ms(client), "versions": [version]}
    client.hset(REPLICAS_KEY, node, json.dumps(document))


def redis_now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds * 1000 + microseconds // 1000)
