"""Scores of a night: the hot set's features through the model, packed as Redis will hold them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from batch_scoring.checksum import add, as_text, field_digest
from batch_scoring.files import absolute, dataset, remove, spark_url, staged_folder, write_parquet
from batch_scoring.job import run_step, step_parser
from batch_scoring.runs import Run, check_rejects, stage
from batch_scoring.scoring.model import SCORED_SCHEMA, ScoreTask, score_batch
from batch_scoring.session import column_batch_rows, spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import REJECTS, SCORES
from schemas.bundle import fetch_bundle
from schemas.keys import bucket_count, field_of
from schemas.manifest import Manifest

STEP = "score"


@dataclass
class _Scored:
    """What the tasks gave. `buckets`: those that have a row."""

    checksum: int = 0
    loads: set[str] = field(default_factory=set)
    buckets: set[int] = field(default_factory=set)


def score(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `scores/` and `rejects/`. Raises Refused where more rows are rejected than allowed."""
    hot_rows = dataset(run.place("hotset")).count_rows()
    bundle = fetch_bundle(
        run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
    )
    task = ScoreTask(
        bundle_url=run.bundle_url,
        digest=run.bundle_digest,
        cache_dir=settings.cache_dir,
        allowed_urls=tuple(absolute(url) for url in settings.allowed_bundle_urls),
        device=settings.device,
        max_rows=settings.score_batch_rows,
        buckets=bucket_count(hot_rows),
        ordinal=run.ordinal,
        computed_at_ms=run.started_at_ms,
    )
    with stage(run, "scoring") as facts:
        _run_model(run, settings, bundle.manifest, task)
        scored = _Scored()
        rows = write_parquet(run.place("scores"), SCORES, _scores(run, scored))
        rejected = write_parquet(run.place("rejects"), REJECTS, _rejects(run))
        facts |= {"rows": rows, "rejected": rejected, "model loads": len(scored.loads)}
    if rows + rejected != hot_rows:
        raise RuntimeError(
            f"{hot_rows:,} hot entities gave {rows:,} scores and {rejected:,} rejects: run score again"
        )
    remove(run.place("scored"))
    check_rejects(rejected, hot_rows, settings, "hot entities")
    return {
        "rows": rows,
        "rejected": rejected,
        "model_loads": len(scored.loads),
        "checksum": as_text(scored.checksum),
        "buckets": task.buckets,
        "filled_buckets": len(scored.buckets),
        "outputs": bundle.manifest.output.stored_width,
    }


def _run_model(run: Run, settings: BatchSettings, manifest: Manifest, task: ScoreTask) -> None:
    """Writes `scored/`: one row a hot entity, its packed value or the reason why there is none."""

    def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield score_batch(batch, task)

    with spark_session(f"hotset-score-{run.generation}") as spark:
        column_batch_rows(spark, settings.score_batch_rows)
        hot = spark.read.parquet(spark_url(run.place("hotset"))).select("entity")
        features = spark.read.parquet(spark_url(run.place("features")))
        rows = features.join(hot, "entity", "left_semi").select("entity", *manifest.feature_names)
        with staged_folder(run.place("scored")) as staged:
            rows.mapInArrow(run_batches, SCORED_SCHEMA).write.parquet(staged)


def _scores(run: Run, scored: _Scored) -> Iterator[pa.Table]:
    """The rows that have a value, in the declared columns; counted into `scored` on the way."""
    for batch in _batches(run):
        scored.loads.update(batch.column("worker").to_pylist())
        good = pa.Table.from_batches([batch.filter(pc.is_null(batch.column("reason")))]).select(SCORES.names)
        scored.buckets.update(good["bucket"].to_pylist())
        for entity, packed in zip(good["entity"].to_pylist(), good["packed"].to_pylist(), strict=True):
            scored.checksum = add(scored.checksum, field_digest(field_of(entity.encode()), packed))
        yield good


def _rejects(run: Run) -> Iterator[pa.Table]:
    for batch in _batches(run):
        yield pa.Table.from_batches([batch.filter(pc.is_valid(batch.column("reason")))]).select(REJECTS.names)


def _batches(run: Run) -> Iterable[pa.RecordBatch]:
    scored: ds.Dataset = dataset(run.place("scored"))
    # Of nothing to score Spark writes no file, and a data set without files has no columns.
    batches: Iterable[pa.RecordBatch] = scored.to_batches() if scored.files else ()
    return batches


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, score, step_parser(STEP, __doc__ or "").parse_args(argv).run)


if __name__ == "__main__":
    raise SystemExit(main())
