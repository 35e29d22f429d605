"""Publishes a night's scores: whole buckets into Redis, under a generation that nobody is routed to yet."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from batch_scoring.bucket_writer import Field, write_buckets
from batch_scoring.files import dataset, spark_url
from batch_scoring.job import run_step, step_parser
from batch_scoring.publishing.generation import clear_others, is_published, write_manifest
from batch_scoring.publishing.memory import check_memory
from batch_scoring.publishing.retire import sweep
from batch_scoring.publishing.sizes import fields_bytes
from batch_scoring.runs import Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.keys import ESCAPED_FIELD_BYTES, MAX_PLAIN_FIELD_BYTES, bucket_prefix, field_of

STEP = "publish"
_WRITTEN = pa.schema([pa.field("fields", pa.int64())])


def publish(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes every bucket; only then does the generation's manifest say that it is published.

    Raises:
        Refused: memory does not suffice, or Redis could evict the generation.
    """
    rows, buckets = run.count("score", "rows"), run.count("score", "buckets")
    with connect(settings) as redis:
        # What earlier nights took out of service has been idle since: room for this one.
        sweep(redis, run, settings)
        needed, filled = _look_at_scores(dataset(run.place("scores")))
        memory = check_memory(redis, needed, "the generation", settings)
        clear_others(redis, run, filled)
        write_manifest(redis, run, "publishing")
    with stage(run, "publishing") as facts:
        written = _write(run, settings, buckets) if rows else 0
        facts |= {"entities": written, "buckets": buckets}
    assert written == rows, f"{written} of {rows} entities were written"
    with connect(settings) as redis:
        write_manifest(redis, run, "published")
    return {"rows": rows, "buckets": buckets, "checksum": run.need_report("score")["checksum"], **memory}


def _write(run: Run, settings: BatchSettings, buckets: int) -> int:
    prefix = bucket_prefix(run.model, run.version, run.generation)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"fields": [write_buckets(_fields(batches), prefix, settings)]}, _WRITTEN)

    with spark_session(f"hotset-publish-{run.generation}") as spark:
        scores = spark.read.parquet(spark_url(run.place("scores"))).select("bucket", "entity", "packed")
        tasks = min(buckets, max(2, spark.sparkContext.defaultParallelism))
        # Sorted, so that a bucket is written by one task in one go.
        by_bucket = scores.repartition(tasks, "bucket").sortWithinPartitions("bucket", "entity")
        done = by_bucket.mapInArrow(write, "fields bigint").toArrow()
    return int(pc.sum(done["fields"]).as_py() or 0)


def _fields(batches: Iterable[pa.RecordBatch]) -> Iterator[Field]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("bucket", "entity", "packed"))
        for bucket, entity, packed in zip(*columns, strict=True):
            yield bucket, field_of(entity.encode()), packed


def _look_at_scores(scores: ds.Dataset) -> tuple[int, set[int]]:
    """About how many bytes they take in Redis, and the buckets that have rows."""
    total, filled = 0, set[int]()
    for batch in scores.to_batches(columns=["bucket", "entity", "packed"]):
        filled.update(batch["bucket"].to_pylist())
        entities, values = (pc.binary_length(batch[name]).to_numpy() for name in ("entity", "packed"))
        fields = np.where(entities > MAX_PLAIN_FIELD_BYTES, ESCAPED_FIELD_BYTES, entities)
        total += fields_bytes(fields, values)
    return total, filled


def still_holds(run: Run, settings: BatchSettings) -> bool:
    with connect(settings) as redis:
        return is_published(redis, run)


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, publish, step_parser(STEP, __doc__ or "").parse_args(argv).run, still_holds)


if __name__ == "__main__":
    raise SystemExit(main())
