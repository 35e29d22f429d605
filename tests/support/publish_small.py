"""A small model with numpy's own forward, and a night of it in Redis: generation, feature table, routes document.

Everything is written by the contracts of `schemas`, as the batch side does; no Spark, no torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from redis import Redis

from schemas.arrow import SNAPSHOT
from schemas.codec import CODEC_VERSION, pack_rows
from schemas.feature_table import pack_record, snapshot_key
from schemas.features import FeatureTransform
from schemas.keys import (
    bucket_count,
    bucket_key,
    bucket_of,
    feature_key,
    field_of,
    routes_channel,
    routes_key,
)
from schemas.manifest import (
    MANIFEST_FILE,
    REQUIRED_FILES,
    BucketFeature,
    Calibration,
    CategoryFeature,
    Freshness,
    InputTensor,
    Manifest,
    NumberFeature,
    Output,
    OutputSpecification,
    ThresholdLabel,
    bundle_digest,
)
from schemas.outputs import calibrate
from schemas.routes import FeatureTable, Generation, RoutesDocument, Version
from schemas.wire import Float32Array, Tensor

Record = Mapping[str, object]
GENERATION = "20261128T0200Z-1"
COMPUTED_AT_MS = 1_795_831_200_000


def small_manifest(
    model: str = "delay", version: str = "1", freshness: Freshness | None = None, default: bool = True
) -> Manifest:
    """Features `distance` (required, >= 0), `edge` (bucketed at 0.1) and `airline`; outputs `late` and `minutes`.

    The label is `late` at and above 0.5, which the forward of `small_forward` reaches at the edge.
    """
    return Manifest(
        name=model,
        version=version,
        files=dict.fromkeys(REQUIRED_FILES, "0" * 64),
        torch_version="none",
        created_at="2026-11-29T00:00:00Z",
        features=(
            NumberFeature(name="distance", scale=0.001, minimum=0),
            BucketFeature(name="edge", edges=(0.1,), missing=0.0),
            CategoryFeature(name="airline", vocabulary=("AA", "DL", "UA"), missing="AA"),
        ),
        inputs=(
            InputTensor(name="numbers", dtype="float32", features=("distance",)),
            InputTensor(name="places", dtype="int64", features=("edge", "airline")),
        ),
        output=OutputSpecification(
            outputs=(Output(name="late"), Output(name="minutes", calibration=Calibration(scale=60.0))),
            label=ThresholdLabel(output="late", threshold=0.5, at_or_above="late", below="on time"),
            default=(0.25, 5.0) if default else None,
        ),
        max_batch_rows=64,
        freshness=freshness or Freshness(),
        golden=(),
    )


def small_forward(tensors: Mapping[str, Tensor]) -> Float32Array:
    """(n, 1) numbers and (n, 2) places to (n, 2): 0.5 at the edge and just under it below; distance + airline."""
    places = tensors["places"]
    late = np.where(places[:, 0] > 0, 0.5, 0.49999997)
    minutes = tensors["numbers"][:, 0] + 0.125 * places[:, 1]
    return np.stack([late, minutes], axis=1).astype(np.float32)


def log_manifest(model: str = "log", default: bool = False, degrade: bool = False) -> Manifest:
    """Feature `x`, output `log_x`: not finite where x <= 0."""
    return Manifest(
        name=model,
        version="1",
        files=dict.fromkeys(REQUIRED_FILES, "0" * 64),
        torch_version="none",
        created_at="2026-11-29T00:00:00Z",
        features=(NumberFeature(name="x"),),
        inputs=(InputTensor(name="x", dtype="float32", features=("x",)),),
        output=OutputSpecification(outputs=(Output(name="log_x"),), default=(0.0,) if default else None),
        max_batch_rows=64,
        freshness=Freshness(when_unavailable=("default",) if degrade else ()),
        golden=(),
    )


def log_forward(tensors: Mapping[str, Tensor]) -> Float32Array:
    return np.log(tensors["x"]).astype(np.float32)


def write_bundle(folder: Path, manifest: Manifest) -> tuple[str, str, bytes]:
    """URL, digest and bytes of the manifest of a bundle that has no other file: the API reads no other."""
    raw = manifest.model_dump_json().encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST_FILE).write_bytes(raw)
    return str(folder), bundle_digest(raw), raw


@dataclass
class Small:
    """A model, its bundle, its entities' records, and the way to publish nights of it.

    Attributes:
        records: of all entities with features; `hot` are those that a generation holds.
    """

    folder: Path
    manifest: Manifest
    records: Mapping[str, Record]
    hot: Sequence[str]
    forward: object = small_forward

    def __post_init__(self) -> None:
        bundle = self.folder / f"{self.manifest.name}-{self.manifest.version}"
        self.url, self.digest, self.raw = write_bundle(bundle, self.manifest)
        self.transform = FeatureTransform(self.manifest)

    def outputs(self, records: Iterable[Record]) -> Float32Array:
        """(n, K) stored outputs, as a bare call of the model gives them."""
        done = self.transform.records(list(records))
        assert not done.problems
        assert callable(self.forward)
        return calibrate(self.manifest.output, self.forward(done.tensors))

    def publish(
        self,
        redis: "Redis[bytes]",
        generation: str | None = GENERATION,
        *,
        epoch: int = 1,
        revision: int = 1,
        ordinal: int = 1,
        with_table: bool = True,
        computed_at_ms: int = COMPUTED_AT_MS,
        codec: int = CODEC_VERSION,
    ) -> RoutesDocument:
        """Loads a generation of the hot entities and a feature table of all, then routes to them."""
        generations = ()
        if generation is not None:
            made = Generation(
                id=generation,
                ordinal=ordinal,
                buckets=bucket_count(len(self.hot)),
                codec=codec,
                rows=len(self.hot),
                computed_at_ms=computed_at_ms,
            )
            self._load(redis, made)
            generations = (made,)
        document = RoutesDocument(
            model=self.manifest.name,
            epoch=epoch,
            revision=revision,
            stable=self.manifest.version,
            versions={
                self.manifest.version: Version(
                    ordinal=1, bundle_url=self.url, bundle_digest=self.digest, generations=generations
                )
            },
            features=self._load_table(redis, generation or GENERATION) if with_table else None,
        )
        self.route(redis, document)
        return document

    def route(self, redis: "Redis[bytes]", document: RoutesDocument) -> None:
        raw = document.model_dump_json()
        redis.set(routes_key(document.model), raw)
        redis.publish(routes_channel(document.model), raw)

    def _load(self, redis: "Redis[bytes]", generation: Generation) -> None:
        if not self.hot:
            return
        entities = [entity.encode() for entity in self.hot]
        outputs = self.outputs(self.records[entity] for entity in self.hot)
        packed = pack_rows(entities, generation.ordinal, generation.computed_at_ms, outputs)
        pipe = redis.pipeline(transaction=False)
        for entity, value in zip(entities, packed, strict=True):
            bucket = bucket_of(entity, generation.buckets)
            key = bucket_key(self.manifest.name, self.manifest.version, generation.id, bucket)
            pipe.hset(key, field_of(entity), value)
        pipe.execute()

    def _load_table(self, redis: "Redis[bytes]", table: str) -> FeatureTable:
        names, buckets = self.manifest.feature_names, bucket_count(len(self.records))
        packed = {
            entity.encode(): pack_record(entity.encode(), [record.get(name) for name in names])
            for entity, record in self.records.items()
        }
        pipe = redis.pipeline(transaction=False)
        for entity, value in packed.items():
            pipe.hset(feature_key(self.manifest.name, table, bucket_of(entity, buckets)), field_of(entity), value)
        pipe.execute()
        path = self.folder / f"{self.manifest.name}-{table}.arrow"
        write_snapshot(path, packed)
        return FeatureTable(
            id=table,
            buckets=buckets,
            features=names,
            rows=len(packed),
            as_of_ms=COMPUTED_AT_MS,
            snapshot_url=str(path),
        )


def write_snapshot(path: Path, packed: Mapping[bytes, bytes]) -> None:
    rows = sorted((snapshot_key(entity), value) for entity, value in packed.items())
    columns = [[key for key, _ in rows], [value for _, value in rows]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SNAPSHOT, strict=True)]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, SNAPSHOT) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=SNAPSHOT))
