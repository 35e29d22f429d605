"""The model whose answers are known, without torch: what the API reads of it, and a night of it in Redis."""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
from pydantic import SecretStr
from redis import Redis

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.settings import BatchSettings
from schemas.codec import CODEC_VERSION, pack_rows
from schemas.feature_table import pack_record
from schemas.keys import bucket_count, bucket_of, bucket_prefix, feature_prefix, field_of, routes_key
from schemas.manifest import (
    REQUIRED_FILES,
    InputTensor,
    Manifest,
    NumberFeature,
    Output,
    OutputSpecification,
    ThresholdLabel,
)
from schemas.routes import FeatureTable, Generation, RoutesDocument, Version
from tests.bench.hits.entities import (
    ABOVE,
    BELOW,
    ENTITIES,
    FEATURES,
    GENERATION,
    MODEL,
    OUTPUT,
    VERSION,
    entity_of,
    features_of,
    value_of,
)
from tests.support.publish_small import write_bundle, write_snapshot

_VALUES = np.array([value_of(number) for number in range(ENTITIES)], dtype=np.float32)


def manifest() -> Manifest:
    """A label and its probability, as most classifiers answer."""
    return Manifest(
        name=MODEL,
        version=VERSION,
        files=dict.fromkeys(REQUIRED_FILES, "0" * 64),
        torch_version="none",
        created_at="2026-11-29T00:00:00Z",
        features=tuple(NumberFeature(name=name) for name in FEATURES),
        inputs=(InputTensor(name="numbers", dtype="float32", features=FEATURES),),
        output=OutputSpecification(
            outputs=(Output(name=OUTPUT),),
            label=ThresholdLabel(output=OUTPUT, threshold=0.5, at_or_above=ABOVE, below=BELOW),
        ),
        max_batch_rows=64,
        golden=(),
    )


def publish(folder: Path, redis_url: str) -> None:
    """All entities, by the product's writer: generation, features with a snapshot, and the route to both."""
    with Redis.from_url(redis_url) as redis:
        now_ms = 1000 * int(redis.time()[0])
        entities = [entity_of(number).encode() for number in range(ENTITIES)]
        buckets = bucket_count(ENTITIES)
        made = Generation(
            id=GENERATION,
            ordinal=1,
            buckets=buckets,
            codec=CODEC_VERSION,
            rows=ENTITIES,
            computed_at_ms=now_ms,
        )
        values = pack_rows(entities, made.ordinal, now_ms, _VALUES.reshape(-1, 1))
        load(redis_url, bucket_prefix(MODEL, VERSION, GENERATION), entities, values, buckets)
        table = _publish_table(folder, redis_url, entities, buckets, now_ms)
        url, digest, _ = write_bundle(folder / MODEL, manifest())
        version = Version(ordinal=1, bundle_url=url, bundle_digest=digest, generations=(made,))
        versions = {VERSION: version}
        document = RoutesDocument(
            model=MODEL, epoch=1, revision=1, stable=VERSION, versions=versions, features=table
        )
        redis.set(routes_key(MODEL), document.model_dump_json())


def load(redis_url: str, prefix: str, entities: Sequence[bytes], values: Sequence[bytes], buckets: int) -> None:
    """Packed values to where look-ups find them, as a publishing task writes its share."""
    fields = zip([bucket_of(entity, buckets) for entity in entities], map(field_of, entities), values, strict=True)
    write_buckets(sorted(fields, key=itemgetter(0)), prefix, BatchSettings(redis_url=SecretStr(redis_url)))


def _publish_table(
    folder: Path, redis_url: str, entities: Sequence[bytes], buckets: int, now_ms: int
) -> FeatureTable:
    records = [list(features_of(number).values()) for number in range(len(entities))]
    packed = {entity: pack_record(entity, record) for entity, record in zip(entities, records, strict=True)}
    load(redis_url, feature_prefix(MODEL, GENERATION), entities, list(packed.values()), buckets)
    snapshot = folder / "features.arrow"
    write_snapshot(snapshot, packed)
    return FeatureTable(
        id=GENERATION,
        buckets=buckets,
        features=FEATURES,
        rows=len(packed),
        as_of_ms=now_ms,
        snapshot_url=str(snapshot),
    )
