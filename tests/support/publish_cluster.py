"""A small model published as nights do it: by the product's own client and writer, to one server or a cluster."""

from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.codec import pack_rows
from schemas.keys import bucket_of, bucket_prefix, field_of
from schemas.routes import Generation, RoutesDocument
from tests.support.publish_small import GENERATION, Small, small_forward, small_manifest


@dataclass
class Written(Small):
    """`Small`, whose generation the product's writer writes."""

    settings: BatchSettings = field(default_factory=BatchSettings)

    def publish_night(self, generation: str = GENERATION, revision: int = 1) -> RoutesDocument:
        with connect(self.settings) as redis:
            return self.publish(redis, generation, revision=revision, ordinal=revision)

    def _load(self, redis: "Redis[bytes]", generation: Generation) -> None:
        entities = [entity.encode() for entity in self.hot]
        outputs = self.outputs(self.records[entity] for entity in self.hot)
        packed = pack_rows(entities, generation.ordinal, generation.computed_at_ms, outputs)
        places = [(bucket_of(entity, generation.buckets), field_of(entity)) for entity in entities]
        rows = sorted((*place, value) for place, value in zip(places, packed, strict=True))
        prefix = bucket_prefix(self.manifest.name, self.manifest.version, generation.id)
        assert write_buckets(rows, prefix, self.settings) == len(entities)


def written(folder: Path, redis_url: str, model: str, hot: int, cold: int) -> Written:
    """Entities `hot0`, `cold0` and so on, each with a value of its own."""
    names = [f"{kind}{place}" for kind, count in (("hot", hot), ("cold", cold)) for place in range(count)]
    records = {name: {"distance": float(place)} for place, name in enumerate(names)}
    settings = BatchSettings.model_validate({"redis_url": redis_url, "write_batch_entities": 500})
    return Written(folder, small_manifest(model), records, names[:hot], small_forward, settings)
