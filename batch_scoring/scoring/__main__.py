"""Scores of a night: the hot set's features through the model, packed as Redis will hold them."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from batch_scoring.files import dataset, file_system, spark_url, staged_folder
from batch_scoring.job import run_step
from batch_scoring.runs import Run, check_rejects, stage
from batch_scoring.scoring.model import SCORED, SCORED_SCHEMA, ScoreTask, score_batch
from batch_scoring.session import column_batch_rows, spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import REJECTS, SCORES
from schemas.bundle import fetch_bundle
from schemas.keys import bucket_count

STEP = "score"


def score(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `scores/` and `rejects/`. Raises Refused where more rows are rejected than allowed."""
    hot_rows = dataset(run.place("hotset")).count_rows()
    bundle = fetch_bundle(
        run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
    )
    task = ScoreTask(
        bundle=str(bundle.folder.absolute()),
        digest=bundle.digest,
        device=settings.device,
        max_rows=settings.score_batch_rows,
        buckets=bucket_count(hot_rows),
        ordinal=run.ordinal,
        computed_at_ms=run.started_at_ms,
    )

    def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield score_batch(batch, task)

    with spark_session(f"hotset-score-{run.generation}") as spark, stage(run, "scoring") as facts:
        column_batch_rows(spark, settings.score_batch_rows)
        hot = spark.read.parquet(spark_url(run.place("hotset"))).select("entity")
        features = spark.read.parquet(spark_url(run.place("features")))
        columns = ["entity", *bundle.manifest.feature_names]
        rows = features.join(F.broadcast(hot), "entity", "left_semi").select(*columns)
        with staged_folder(run.place("scored")) as staged:
            rows.mapInArrow(run_batches, SCORED_SCHEMA).write.parquet(staged)
        facts["rows"] = hot_rows
    scores, rejects, loads = _split(run)
    check_rejects(rejects.num_rows, hot_rows, settings, "hot entities")
    return {
        "rows": scores.num_rows,
        "rejected": rejects.num_rows,
        "model_loads": loads,
        "checksum": checksum(scores),
        "buckets": task.buckets,
        "outputs": len(bundle.manifest.output.outputs),
    }


def _split(run: Run) -> tuple[pa.Table, pa.Table, int]:
    """What the tasks wrote, as files of the declared schemas; and how often the model loaded."""
    scored = dataset(run.place("scored"))
    # Of nothing to score Spark writes no file, and a data set without files has no columns.
    table = scored.to_table() if scored.files else SCORED.empty_table()
    good, bad = pc.is_null(table["reason"]), pc.is_valid(table["reason"])
    scores = table.filter(good).select(SCORES.names).cast(SCORES).sort_by("bucket")
    rejects = table.filter(bad).select(REJECTS.names).cast(REJECTS)
    for place, rows in (("scores", scores), ("rejects", rejects)):
        with staged_folder(run.place(place)) as staged:
            filesystem, path = file_system(staged)
            filesystem.makedirs(path, exist_ok=True)
            pq.write_table(rows, f"{path}/part-0.parquet", filesystem=filesystem)
    filesystem, path = file_system(run.place("scored"))
    filesystem.rm(path, recursive=True)
    return scores, rejects, len(set(table["worker"].to_pylist()))


def checksum(scores: pa.Table) -> str:
    """Of entities and packed values, whatever their order."""
    total = 0
    for entity, packed in zip(scores["entity"].to_pylist(), scores["packed"].to_pylist(), strict=True):
        total += int.from_bytes(hashlib.blake2b(entity.encode() + b"\0" + packed, digest_size=8).digest(), "big")
    return f"{total % (1 << 64):016x}"


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, score, argv, __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
