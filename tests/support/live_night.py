"""Nights that the live tier can be asked about: features on disk and in Redis, values of the real program."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from redis import Redis

from batch_scoring.files import write_parquet
from batch_scoring.runs import Role, Run
from batch_scoring.settings import BatchSettings
from runtime.program import load_program
from schemas.arrow import features_schema
from schemas.bundle import Bundle, load_transform, read_folder
from schemas.codec import Float32Array, pack_rows
from schemas.feature_table import pack_record
from schemas.keys import REPLICAS_KEY, bucket_count, bucket_of, feature_key, field_of
from schemas.manifest import MANIFEST_FILE
from schemas.names import run_path
from schemas.outputs import calibrate

AS_OF = datetime(2026, 11, 28, 2, tzinfo=UTC)
GENERATION = "20261128T0200Z-1"
# With an id that is no ASCII, and one that is no plain field.
ENTITIES = ["é", "long" * 30, *(f"UA{i}" for i in range(998))]
Record = dict[str, object]
Sample = list[tuple[bytes, bytes]]


def records(entities: Sequence[str]) -> dict[str, Record]:
    """Of `linear_bundle`; some with nulls."""
    return {
        entity: {
            "distance": 100.0 + 7.0 * i,
            "delay": None if i % 5 == 0 else float(i % 60 - 20),
            "airline": ("AA", "DL", None, "ZZ")[i % 4],
        }
        for i, entity in enumerate(entities)
    }


@dataclass
class LiveNight:
    """Runs under `folder/data`, in the Redis of `redis_url`; `announced` are the replicas that it names."""

    folder: Path
    redis_url: str
    redis: "Redis[bytes]"
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> BatchSettings:
        given = {
            "redis_url": self.redis_url,
            "data_url": str(self.folder / "data"),
            "allowed_bundle_urls": (str(self.folder.parent), "/"),
            "replica_max_age_s": 3600.0,
        }
        return BatchSettings.model_validate(given | dict(self.more))

    def run(self, bundle: Bundle, role: Role = Role.NEW, entities: Mapping[str, Record] | None = None) -> Run:
        """A run whose features are written and loaded, and whose reports tell of that."""
        run = Run(
            model=bundle.manifest.name,
            version=bundle.manifest.version,
            bundle_url=str(bundle.folder),
            bundle_digest=bundle.digest,
            as_of=AS_OF,
            generation=GENERATION,
            ordinal=3,
            started_at_ms=1_796_000_000_000,
            run_key="night",
            token=1,
            role=role,
            url=f"{self.folder / 'data'}/{run_path(bundle.manifest.name, GENERATION)}/run.json",
        )
        run.save()
        found = records(ENTITIES) if entities is None else entities
        self.write_features(run, bundle, found)
        names = list(bundle.manifest.feature_names)
        run.finish("features", {"buckets": bucket_count(len(found)), "features": names, "needed_bytes": 50_000})
        self.load_table(run, bundle, found)
        run.finish("score", {"rows": len(found), "outputs": bundle.manifest.output.stored_width})
        run.finish("publish", {"rows": len(found), "needed_bytes": 20_000})
        return run

    def write_features(self, run: Run, bundle: Bundle, found: Mapping[str, Record]) -> None:
        schema = features_schema(bundle.manifest.features)
        rows = [{"entity": entity, "as_of": AS_OF, **record} for entity, record in found.items()]
        write_parquet(run.place("features"), schema, [pa.Table.from_pylist(rows, schema)])

    def load_table(self, run: Run, bundle: Bundle, found: Mapping[str, Record]) -> None:
        buckets = run.count("features", "buckets")
        pipeline = self.redis.pipeline(transaction=False)
        for entity, record in found.items():
            raw = entity.encode()
            packed = pack_record(raw, [record[name] for name in bundle.manifest.feature_names])
            key = feature_key(run.model, run.generation, bucket_of(raw, buckets))
            pipeline.hset(key, field_of(raw), packed)
        pipeline.execute()

    def sample(self, run: Run, bundle: Bundle, found: Mapping[str, Record] | None = None) -> Sample:
        """Every entity with the value that a bare call of the program gives."""
        found = records(ENTITIES) if found is None else found
        return self.packed(run, list(found), outputs_of(bundle, list(found.values())))

    def packed(self, run: Run, entities: Sequence[str], outputs: Float32Array) -> Sample:
        raw = [entity.encode() for entity in entities]
        return list(zip(raw, pack_rows(raw, run.ordinal, run.started_at_ms, outputs), strict=True))

    def announce(self, name: str, document: Mapping[str, object]) -> None:
        self.redis.hset(REPLICAS_KEY, name, orjson.dumps(document))


def outputs_of(bundle: Bundle, found: Sequence[Record]) -> Float32Array:
    """(n, W) stored outputs."""
    done = load_transform(bundle.folder, bundle.manifest).records(found)
    assert not done.problems
    program = load_program(bundle.folder, bundle.manifest, "cpu")
    most = bundle.manifest.max_batch_rows
    parts = [done.take(np.arange(start, min(done.rows, start + most))) for start in range(0, done.rows, most)]
    return calibrate(bundle.manifest.output, np.concatenate([program(tensors) for tensors in parts]))


def twin(bundle: Bundle, folder: Path, version: str) -> Bundle:
    """A bundle of the same program under a version of that name: another bundle, by its digest."""
    shutil.copytree(bundle.folder, folder)
    manifest = bundle.manifest.model_copy(update={"version": version, "metrics": {"copied": 1.0}})
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(), encoding="utf-8")
    return read_folder(folder)
