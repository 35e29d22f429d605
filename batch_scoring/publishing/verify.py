"""Verifies a published generation: every bucket against the score files, and a sample as a client reads it."""

import random
from dataclasses import dataclass, field

import numpy as np
import pyarrow.dataset as ds
from redis import Redis

from batch_scoring.checksum import add, as_text, field_digest
from batch_scoring.files import dataset
from batch_scoring.publishing.generation import write_manifest
from batch_scoring.runs import Refused, Run, stage
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.codec import CorruptValue, unpack
from schemas.keys import bucket_key, bucket_of, field_of

STEP = "verify"
_READ_BUCKETS = 50
_COLUMNS = ["entity", "bucket", "packed"]


@dataclass
class _Expected:
    """What the score files say: fields and checksum of each bucket, and a sample of (entity, value)."""

    counts: list[int]
    sums: list[int]
    sample: list[tuple[bytes, bytes]] = field(default_factory=list)


def verify(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Marks the generation verified. Raises Refused where Redis does not hold exactly what was scored."""
    run.need_report("publish")
    buckets = run.count("score", "buckets")
    with connect(settings) as redis, stage(run, "verification") as facts:
        try:
            expected = _read_scores(run, buckets, settings.verify_sample)
            total = 0
            for start in range(0, buckets, _READ_BUCKETS):
                total = add(
                    total, _compare(redis, run, expected, range(start, min(buckets, start + _READ_BUCKETS)))
                )
            _read_back(redis, run, expected.sample, buckets)
        except Refused:
            # So that neither this generation is activated nor publishing it again is skipped.
            write_manifest(redis, run, "refused")
            run.forget("publish")
            raise
        write_manifest(redis, run, "verified")
        rows = sum(expected.counts)
        facts |= {"rows": rows, "read_back": len(expected.sample)}
    return {"rows": rows, "buckets": buckets, "read_back": len(expected.sample), "checksum": as_text(total)}


def _read_scores(run: Run, buckets: int, sample: int) -> _Expected:
    """Reads the files once, in constant memory but for a few numbers a bucket."""
    scored = run.need_report("score")
    rows = run.count("score", "rows")
    expected = _Expected([0] * buckets, [0] * buckets)
    chosen = np.sort(random.Random(run.generation).sample(range(rows), min(rows, sample)))
    seen = 0
    for batch in dataset(run.place("scores")).to_batches(columns=_COLUMNS):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for entity, bucket, packed in zip(*columns, strict=True):
            expected.counts[bucket] += 1
            expected.sums[bucket] = add(expected.sums[bucket], field_digest(field_of(entity.encode()), packed))
        for place in chosen[(chosen >= seen) & (chosen < seen + batch.num_rows)] - seen:
            expected.sample.append((columns[0][place].encode(), columns[2][place]))
        seen += batch.num_rows
    checksum = as_text(sum(expected.sums) % (1 << 64))
    if seen != rows or checksum != scored["checksum"]:
        raise Refused(
            f"the score files of {run.generation} hold {seen:,} rows with checksum {checksum}, not the {rows:,}"
            f" with {scored['checksum']} that were written: they were changed, run score again"
        )
    return expected


def _compare(redis: Redis, run: Run, expected: _Expected, buckets: range) -> int:
    """Compares count and checksum of each bucket; returns their sum."""
    pipeline = redis.pipeline(transaction=False)
    for bucket in buckets:
        pipeline.hgetall(bucket_key(run.model, run.version, run.generation, bucket))
    total = 0
    for bucket, found in zip(buckets, pipeline.execute(), strict=True):
        digest = 0
        for name, value in found.items():
            digest = add(digest, field_digest(name, value))
        if len(found) != expected.counts[bucket] or digest != expected.sums[bucket]:
            raise Refused(_difference(run, bucket, found))
        total = add(total, digest)
    return total


def _difference(run: Run, bucket: int, found: dict[bytes, bytes]) -> str:
    rows = dataset(run.place("scores")).to_table(columns=_COLUMNS, filter=ds.field("bucket") == bucket)
    pairs = zip(rows["entity"].to_pylist(), rows["packed"].to_pylist(), strict=True)
    fields = {field_of(entity.encode()): packed for entity, packed in pairs}
    missing, extra = len(fields.keys() - found.keys()), len(found.keys() - fields.keys())
    other = len(fields) - missing - sum(found.get(name) == value for name, value in fields.items())
    return (
        f"bucket {bucket} of {run.generation} is not what was scored: {missing} fields missing, {extra} too many,"
        f" {other} with another value; run publish again"
    )


def _read_back(redis: Redis, run: Run, sample: list[tuple[bytes, bytes]], buckets: int) -> None:
    """Reads single entities as the endpoint does, fingerprint and ordinal included."""
    outputs = run.count("score", "outputs")
    pipeline = redis.pipeline(transaction=False)
    for entity, _ in sample:
        key = bucket_key(run.model, run.version, run.generation, bucket_of(entity, buckets))
        pipeline.hget(key, field_of(entity))
    for (entity, packed), value in zip(sample, pipeline.execute(), strict=True):
        if value != packed:
            raise Refused(f"{entity.decode()!r} reads back as {value!r}, not as it was scored; run publish again")
        try:
            unpack(value, entity, run.ordinal, outputs)
        except CorruptValue as error:
            raise Refused(f"{entity.decode()!r} reads back as {error}") from None
