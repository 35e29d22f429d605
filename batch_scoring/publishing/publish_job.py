"""Publishes a night's scores: whole buckets into Redis, under a generation that nobody is routed to yet.

A task of Spark for each score file, which its worker reads itself. What a run that was killed or refused half-way
has written stays, and the next call goes on with the files that are left.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
from redis import Redis
from redis.exceptions import RedisError

from batch_scoring.bucket_bytes import fields_of
from batch_scoring.fail_points import reach
from batch_scoring.faults import NotTaken, from_error
from batch_scoring.job import run_step, step_parser
from batch_scoring.priority import have_driver_give_way
from batch_scoring.publishing import checkpoints
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.generation import (
    begin_attempt,
    held_buckets,
    is_published,
    most_buckets,
    need_attempt,
    write_manifest,
)
from batch_scoring.publishing.memory import check_memory, next_night_rows
from batch_scoring.publishing.retire import DELETED, sweep
from batch_scoring.publishing.sink import Outcome, Sink, rows_of
from batch_scoring.publishing.sizes import fields_bytes
from batch_scoring.publishing.tokens import unless_newer
from batch_scoring.runs import Run, stage
from batch_scoring.score_files import DamagedScores, Part, bucket_ranges, parts_of, read_part
from batch_scoring.session import driver_pid, spark_session
from batch_scoring.settings import BatchSettings
from batch_scoring.store import Pace, connect, life, unlink
from schemas.keys import MEAN_BUCKET_FIELDS, bucket_key

STEP = "publish"
RunTasks = Callable[[Run, Sink, Sequence[int]], list[Outcome]]


def spark_tasks(run: Run, sink: Sink, places: Sequence[int]) -> list[Outcome]:
    """Writes the parts at these places, a task each."""
    with spark_session(f"hotset-publish-{run.generation}") as spark:
        context = spark.sparkContext
        have_driver_give_way(driver_pid(spark), sink.settings)
        shared = replace(sink, tasks=min(len(places), context.defaultParallelism))
        return context.parallelize(places, len(places)).map(shared.write_in_worker).collect()


def publish(run: Run, settings: BatchSettings, run_tasks: RunTasks = spark_tasks) -> dict[str, object]:
    """Writes every bucket; only then does the generation's manifest say that it is published.

    Args:
        run_tasks: writes parts.

    Raises:
        Refused: memory does not suffice, Redis could evict the generation, or score files are damaged, which then
            count as not scored.
        NotTaken: Redis ran out of memory or disk, restarted, or was lost: the next call goes on.
    """
    scored = run.report("score")
    try:
        with connect(settings) as redis, unless_newer(redis, run):
            try:
                return _publish(redis, run, settings, run_tasks)
            except RedisError as error:
                raise from_error(error, redis) from error
    except DamagedScores:
        # Unless it was scored again meanwhile: then this is a job that woke late, and others go by the new scores.
        if run.report("score") == scored:
            checkpoints.forget_all(run)
            run.forget("score")
        raise


def _publish(redis: Redis, run: Run, settings: BatchSettings, run_tasks: RunTasks) -> dict[str, object]:
    rows, buckets, parts = run.count("score", "rows"), run.count("score", "buckets"), parts_of(run)
    ranges = bucket_ranges(run, parts, buckets)
    # What earlier nights took out of service has been idle since: room for this one.
    sweep(redis, run, settings)
    memory = _need_room(redis, run, parts, rows, settings)
    began = life(redis)
    beyond = range(buckets if parts else 0, most_buckets(redis, run))
    extra = (bucket_key(run.model, run.version, run.generation, one) for one in beyond)
    unlink(redis, extra, Pace.of(settings, weight=MEAN_BUCKET_FIELDS))
    run.forget(DELETED)
    attempt = begin_attempt(redis, run)
    reach("publish.begun", settings.fail_point)
    left = checkpoints.left(run, parts, attempt, began)
    with stage(run, "publishing") as facts:
        sink = Sink(run, settings, attempt, parts, ranges)
        try:
            written = rows_of(run_tasks(run, sink, left)) if left else 0
        finally:
            # A later run may have swept meanwhile: what was written since is yet to be deleted.
            run.forget(DELETED)
        there = sum(part.rows for place, part in enumerate(parts) if place not in set(left))
        facts |= {"entities": written, "there before": there, "buckets": buckets, "tasks": len(left)}
    assert written + there == rows, f"{written} and {there} of {rows} entities were written"
    if life(redis) != began:
        raise NotTaken("Redis restarted or failed over while it was written to: run publish again")
    need_attempt(redis, run, attempt)
    reach("publish.written", settings.fail_point)
    write_manifest(redis, run, "published")
    checksum = run.need_report("score")["checksum"]
    return {"rows": rows, "buckets": buckets, "checksum": checksum, "tasks": len(left), **memory}


def _need_room(
    redis: Redis, run: Run, parts: Sequence[Part], rows: int, settings: BatchSettings
) -> dict[str, object]:
    """The numbers. Raises Refused where what is yet to be written, and what must fit beside it, does not fit."""
    needed = _needed_bytes(run, parts, rows)
    filled = run.count("score", "filled_buckets")
    # An earlier attempt's buckets are replaced: they are in the memory that is used.
    missing = 1 - min(held_buckets(redis, run), filled) / filled if filled else 0.0
    then = next_night_rows(run, rows, read_document(redis, run.model)) / rows if rows else 0.0
    found = check_memory(redis, int(needed * missing), "the generation", settings, int(needed * then))
    return {**found, "needed_bytes": needed}


def _needed_bytes(run: Run, parts: Sequence[Part], rows: int) -> int:
    """About how many bytes the generation takes, by one part: buckets go by a digest of the entity, so that each
    part is a random sample of all.
    """
    if not parts:
        return 0
    table = read_part(run, parts[0])
    fields = fields_of(table["entity"].combine_chunks())
    lengths = [pc.binary_length(one).to_numpy(zero_copy_only=False) for one in (fields, table["packed"])]
    return int(fields_bytes(*(np.asarray(one) for one in lengths)) * rows / table.num_rows)


def still_holds(run: Run, settings: BatchSettings) -> bool:
    with connect(settings) as redis:
        return is_published(redis, run)


def main(argv: Sequence[str] | None = None) -> int:
    given = step_parser("batch_scoring.publishing.publish_job", __doc__ or "").parse_args(argv)
    return run_step(STEP, publish, given.run, still_holds)


if __name__ == "__main__":
    raise SystemExit(main())
