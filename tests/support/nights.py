"""Several generations and deltas of a small model in one routes document, each with its entities and its time."""

from collections.abc import Mapping, Sequence

import numpy as np
from redis import Redis

from schemas.codec import CODEC_VERSION, pack_rows
from schemas.keys import bucket_count, bucket_key, bucket_of, field_of, routes_key
from schemas.routes import Generation, RoutesDocument
from tests.support.publish_small import Small


def load(
    redis: "Redis[bytes]",
    small: Small,
    made_id: str,
    ordinal: int,
    computed_at_ms: int,
    minutes: Mapping[str, float],
) -> Generation:
    """Writes a precomputed set whose answers for these entities are so many minutes; routes to nothing."""
    manifest = small.manifest
    made = Generation(
        id=made_id,
        ordinal=ordinal,
        buckets=bucket_count(len(minutes)),
        codec=CODEC_VERSION,
        rows=len(minutes),
        computed_at_ms=computed_at_ms,
    )
    entities = [entity.encode() for entity in minutes]
    outputs = np.array([[0.25, value] for value in minutes.values()], np.float32)
    for entity, value in zip(entities, pack_rows(entities, ordinal, computed_at_ms, outputs), strict=True):
        key = bucket_key(manifest.name, manifest.version, made_id, bucket_of(entity, made.buckets))
        redis.hset(key, field_of(entity), value)
    return made


def route(
    redis: "Redis[bytes]", small: Small, generations: Sequence[Generation], *, is_first: bool = True
) -> RoutesDocument:
    """Routes to these, newest first. The first time with a feature table of the model's records."""
    if is_first:
        document = small.publish(redis, generation=None)
    else:
        raw = redis.get(routes_key(small.manifest.name))
        assert raw is not None
        document = RoutesDocument.model_validate_json(raw)
    version = document.versions[document.stable].model_copy(update={"generations": tuple(generations)})
    update = {"versions": {document.stable: version}, "revision": document.revision + 1}
    document = document.model_copy(update=update)
    small.route(redis, document)
    return document


def redis_ms(redis: "Redis[bytes]") -> int:
    seconds, us = redis.time()
    return int(seconds) * 1000 + int(us) // 1000
