"""Verifies a published generation: every bucket against the score files, and a sample as a client reads it."""

import random
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import orjson
from redis import Redis

from batch_scoring.files import dataset
from batch_scoring.runs import Refused, Run, stage
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.codec import CorruptValue, unpack
from schemas.keys import bucket_key, bucket_of, field_of, generation_manifest_key

STEP = "verify"
_READ_BUCKETS = 50
Fields = dict[bytes, bytes]


def verify(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Marks the generation verified. Raises Refused where Redis does not hold exactly what was scored."""
    published = run.need_report("publish")
    outputs = run.count("score", "outputs")
    buckets = run.count("publish", "buckets")
    entities: list[str] = []
    with connect(settings) as redis, stage(run, "verification") as facts:
        rows = 0
        wanted = dict(_buckets(run, entities))
        for start in range(0, buckets, _READ_BUCKETS):
            rows += _compare(redis, run, wanted, range(start, min(buckets, start + _READ_BUCKETS)))
        if rows != published["rows"]:
            raise Refused(f"{rows:,} entities were compared, and {published['rows']:,} published")
        sample = sorted(random.Random(run.generation).sample(entities, min(len(entities), settings.verify_sample)))
        _read_back(redis, run, sample, buckets, outputs)
        key = generation_manifest_key(run.model, run.version, run.generation)
        manifest = orjson.loads(redis.get(key) or b"{}")
        redis.set(key, orjson.dumps({**manifest, "state": "verified"}))
        facts |= {"rows": rows, "read_back": len(sample)}
    return {"rows": rows, "buckets": buckets, "read_back": len(sample), "checksum": published["checksum"]}


def _buckets(run: Run, entities: list[str]) -> Iterator[tuple[int, Fields]]:
    """Field and value by bucket, from the score files; the entities are collected on the way."""
    scores = dataset(run.place("scores")).to_table().sort_by("bucket")
    columns = (scores[name].to_pylist() for name in ("bucket", "entity", "packed"))
    for bucket, rows in groupby(zip(*columns, strict=True), key=itemgetter(0)):
        fields: Fields = {}
        for _, entity, packed in rows:
            entities.append(entity)
            fields[field_of(entity.encode())] = packed
        yield bucket, fields


def _compare(redis: Redis, run: Run, wanted: dict[int, Fields], buckets: range) -> int:
    """Compares whole buckets byte for byte; returns the fields compared."""
    pipeline = redis.pipeline(transaction=False)
    for bucket in buckets:
        pipeline.hgetall(bucket_key(run.model, run.version, run.generation, bucket))
    compared = 0
    for bucket, found in zip(buckets, pipeline.execute(), strict=True):
        fields = wanted.get(bucket, {})
        if found != fields:
            missing, extra = len(fields.keys() - found.keys()), len(found.keys() - fields.keys())
            other = len(fields) - missing - sum(found.get(name) == value for name, value in fields.items())
            raise Refused(
                f"bucket {bucket} of {run.generation} is not what was scored: {missing} fields missing,"
                f" {extra} too many, {other} with another value; publish again (remove report-publish.json)"
            )
        compared += len(found)
    return compared


def _read_back(redis: Redis, run: Run, sample: list[str], buckets: int, outputs: int) -> None:
    """Reads single entities as the endpoint does, fingerprint and ordinal included."""
    pipeline = redis.pipeline(transaction=False)
    for entity in sample:
        raw = entity.encode()
        key = bucket_key(run.model, run.version, run.generation, bucket_of(raw, buckets))
        pipeline.hget(key, field_of(raw))
    for entity, value in zip(sample, pipeline.execute(), strict=True):
        try:
            unpack(value or b"", entity.encode(), run.ordinal, outputs)
        except CorruptValue as error:
            raise Refused(f"{entity!r} reads back as {error}") from None
