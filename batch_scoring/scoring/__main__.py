"""Scores of a night: the hot set's features through the model, packed as Redis will hold them.

Spark decides who does what and whose result counts; its Python workers read and write the files themselves. First
each split of the features is scored, then each part of the score files is put together from what the splits left.
"""

import uuid
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from batch_scoring.checksum import add, as_text
from batch_scoring.files import absolute, dataset, exists, file_system, remove, staged_folder, write_parquet
from batch_scoring.job import FAILED, run_step, step_parser
from batch_scoring.runs import LOG, Run, check_rejects, stage
from batch_scoring.score_files import FOLDER, are_whole, part_count, parts_of
from batch_scoring.scoring.forward_rows import forward_rows
from batch_scoring.scoring.hot import write_hot_keys
from batch_scoring.scoring.score_split import score_splits
from batch_scoring.scoring.splits import plan_splits
from batch_scoring.scoring.task import Scored, ScoreTask
from batch_scoring.scoring.write_parts import PartTask, Written, commit_parts, write_parts
from batch_scoring.session import TaskFailed, run_tasks, spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import REJECTS
from schemas.bundle import fetch_bundle
from schemas.keys import bucket_count
from schemas.manifest import Manifest

STEP = "score"
_REJECTS = "rejects"
# Folders of attempts, which nobody reads once the step is done.
_WORK, _STAGED = "_scoring-", f"_{FOLDER}-"


def score(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `scores/` and `rejects/`. Raises Refused where more rows are rejected than allowed."""
    bundle = fetch_bundle(
        run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
    )
    hot_rows = dataset(run.place("hotset")).count_rows()
    task = _task(run, settings, bundle.manifest, hot_rows)
    filesystem, work = file_system(task.work_url)
    filesystem.makedirs(work)
    try:
        with spark_session(f"hotset-score-{run.generation}") as spark:
            scored = _run_model(run, task, spark, hot_rows)
            rows, rejected = sum(one.rows for one in scored), sum(one.rejected for one in scored)
            check_rejects(rejected, hot_rows, settings, "hot entities")
            written = _write_scores(run, task, spark, scored)
    finally:
        remove(task.work_url)
    _remove_attempts(run)
    return {
        "rows": rows,
        "rejected": rejected,
        "model_loads": _loads(scored),
        "checksum": as_text(reduce(add, (one.checksum for one in written), 0)),
        "buckets": task.buckets,
        "filled_buckets": sum(one.filled for one in written),
        "outputs": bundle.manifest.output.stored_width,
        "parts": [one.part.model_dump() for one in written],
    }


def _run_model(run: Run, task: ScoreTask, spark: SparkSession, hot_rows: int) -> list[Scored]:
    """Scores all splits, and writes `rejects/`."""
    with stage(run, "scoring") as facts:
        write_hot_keys(run.place("hotset"), task.work_url)
        cores = spark.sparkContext.defaultParallelism
        splits = plan_splits(run.place("features"), cores) if hot_rows else []
        scored: list[Scored] = run_tasks(spark, partial(score_splits, task), splits)
        rejected, rows = _write_rejects(run, task, scored), sum(one.rows for one in scored)
        facts |= {"rows": rows, "rejected": rejected, "model loads": _loads(scored)}
    if rows + rejected < hot_rows:
        raise RuntimeError(
            f"{hot_rows:,} hot entities gave {rows:,} scores and {rejected:,} rejects: the features lack some of"
            " them, run features and select again"
        )
    return scored


def _loads(scored: Sequence[Scored]) -> int:
    return len({one.load for one in scored})


def _task(run: Run, settings: BatchSettings, manifest: Manifest, hot_rows: int) -> ScoreTask:
    buckets = bucket_count(hot_rows)
    return ScoreTask(
        bundle_url=run.bundle_url,
        digest=run.bundle_digest,
        cache_dir=absolute(settings.cache_dir),
        allowed_urls=tuple(absolute(url) for url in settings.allowed_bundle_urls),
        device=settings.device,
        work_url=absolute(run.place(f"{_WORK}{uuid.uuid4().hex}")),
        forward_rows=forward_rows(settings, manifest),
        block_bytes=settings.score_batch_bytes,
        buckets=buckets,
        parts=part_count(hot_rows, buckets),
        ordinal=run.ordinal,
        computed_at_ms=run.started_at_ms,
    )


def _write_rejects(run: Run, task: ScoreTask, scored: Sequence[Scored]) -> int:
    filesystem, folder = file_system(task.work_url)

    def tables() -> Iterator[pa.Table]:
        for one in scored:
            if one.rejects is not None:
                with filesystem.open(f"{folder}/{one.rejects}", "rb") as file, pa.ipc.open_file(file) as reader:
                    yield reader.read_all()

    return write_parquet(run.place(_REJECTS), REJECTS, tables())


def _write_scores(run: Run, task: ScoreTask, spark: SparkSession, scored: Sequence[Scored]) -> list[Written]:
    """Puts the parts together and commits them; returns them in order."""
    files = tuple(name for one in scored for name in one.files)
    if not files:
        remove(run.place(FOLDER))
        return []
    with staged_folder(run.place(FOLDER)) as staged:
        todo = [PartTask(number, task.work_url, files, staged) for number in range(task.parts)]
        return commit_parts(staged, run_tasks(spark, write_parts, todo))


def _remove_attempts(run: Run) -> None:
    """What attempts left that were killed; one that still runs will find that the step is done."""
    filesystem, folder = file_system(run.place(""))
    for path in filesystem.ls(folder, detail=False):
        if path.rpartition("/")[2].startswith((_WORK, _STAGED)):
            remove(filesystem.unstrip_protocol(path))


def still_holds(run: Run, settings: BatchSettings) -> bool:
    """Whether the files are there, and are what was written."""
    return exists(run.place(_REJECTS)) and are_whole(run, parts_of(run))


def main(argv: Sequence[str] | None = None) -> int:
    given = step_parser("batch_scoring.scoring", __doc__ or "").parse_args(argv)
    try:
        return run_step(STEP, score, given.run, still_holds)
    except TaskFailed as fault:
        LOG.error("failed, and may be tried again: %s", fault)
        return FAILED


if __name__ == "__main__":
    raise SystemExit(main())
