"""Publishes a night's scores: whole buckets into Redis, under a generation that nobody is routed to yet."""

from collections.abc import Iterable, Sequence

import orjson
from pyspark.sql import Row

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.files import dataset, spark_url
from batch_scoring.job import run_step
from batch_scoring.publishing.memory import check_memory
from batch_scoring.runs import Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.codec import CODEC_VERSION
from schemas.keys import bucket_prefix, field_of, generation_manifest_key

STEP = "publish"


def publish(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes every bucket, then the generation's manifest. Raises Refused where memory does not suffice."""
    scored = run.need_report("score")
    rows, buckets = run.count("score", "rows"), run.count("score", "buckets")
    prefix = bucket_prefix(run.model, run.version, run.generation)
    with connect(settings) as redis:
        memory = check_memory(redis, dataset(run.place("scores")), settings)

    def write(part: Iterable[Row]) -> None:
        fields = ((row.bucket, field_of(row.entity.encode()), row.packed) for row in part)
        write_buckets(fields, prefix, settings)

    with stage(run, "publishing") as facts:
        if rows:
            with spark_session(f"hotset-publish-{run.generation}") as spark:
                scores = spark.read.parquet(spark_url(run.place("scores")))
                tasks = min(buckets, max(2, spark.sparkContext.defaultParallelism))
                by_bucket = scores.repartition(tasks, "bucket").sortWithinPartitions("bucket", "entity")
                by_bucket.foreachPartition(write)
        facts |= {"rows": rows, "buckets": buckets}
    with connect(settings) as redis:
        manifest = {
            "rows": rows,
            "buckets": buckets,
            "checksum": scored["checksum"],
            "codec": CODEC_VERSION,
            "ordinal": run.ordinal,
            "computed_at_ms": run.started_at_ms,
            "state": "published",
        }
        redis.set(generation_manifest_key(run.model, run.version, run.generation), orjson.dumps(manifest))
    return {"rows": rows, "buckets": buckets, "checksum": scored["checksum"], **memory}


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, publish, argv, __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
