"""What one task of publishing does: a part of the score files into Redis, in one go.

Runs in Spark's Python workers. It may run twice, or in two workers at once: each bucket is replaced whole.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from redis.exceptions import RedisError

from batch_scoring.bucket_bytes import WireBucket, empty_buckets, score_slices, wire_buckets
from batch_scoring.bucket_writer import replace_buckets
from batch_scoring.fail_points import reach
from batch_scoring.faults import NotTaken, from_error
from batch_scoring.priority import give_way
from batch_scoring.publishing import checkpoints
from batch_scoring.publishing.generation import need_attempt
from batch_scoring.runs import Run
from batch_scoring.score_files import DamagedScores, Part, read_part
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, life
from schemas.keys import bucket_prefix

# Where a drill may stop a part: some buckets are sent, if writes are small.
_HALF_BUCKETS = 2

# How long a task may believe that its attempt is still the one.
_ASK_AGAIN_S = 0.1


@dataclass(frozen=True)
class Sink:
    """What all tasks are told.

    Attributes:
        ranges: for each part its buckets, those without rows among them.
        tasks: how many run at the same time, and share the limit.
    """

    run: Run
    settings: BatchSettings
    attempt: str
    parts: Sequence[Part]
    ranges: Sequence[range]
    tasks: int = 1

    def write(self, place: int) -> "Outcome":
        """Writes a part and keeps its checkpoint. What stops it is an outcome, not an error: Spark trying at once
        again would not help.
        """
        try:
            return Outcome(rows=self._write(place))
        except DamagedScores as damage:
            return Outcome(damaged=str(damage))
        except (NotTaken, OSError) as fault:  # OSError: such as a full disk
            return Outcome(not_taken=str(fault))

    def write_in_worker(self, place: int) -> "Outcome":
        """As `write`, in a worker of Spark's own, which collects garbage after each task: what is imported is left
        out of that, which otherwise takes longer than many a task (80 of 100 ms measured).
        """
        if not gc.get_freeze_count():
            gc.freeze()
        give_way(self.settings)
        return self.write(place)

    def _write(self, place: int) -> int:
        part, run = self.parts[place], self.run
        table = read_part(run, part)
        prefix = bucket_prefix(run.model, run.version, run.generation)
        with connect(self.settings) as redis:
            try:
                # Asked before the writes: if Redis restarts in between, the checkpoint names a life that is over.
                now = life(redis)
                need_attempt(redis, run, self.attempt)
                buckets = _drilled(_buckets(table, self.ranges[place]), self.settings.fail_point)
                buckets = _fenced(buckets, lambda: need_attempt(redis, run, self.attempt))
                written = replace_buckets(redis, buckets, prefix, self.settings, self.tasks)
            except RedisError as error:
                raise from_error(error, redis) from None
        checkpoints.keep(run, part, self.attempt, now)
        return written


def _buckets(table: pa.Table, owned: range) -> Iterator[WireBucket]:
    """All of a part: those without rows are deleted, which an earlier attempt may have filled."""
    first = owned.start
    for rows in score_slices(table):
        yield from wire_buckets(rows, first)
        first = rows.buckets[-1] + 1
    yield from empty_buckets(range(first, owned.stop))


def _drilled(buckets: Iterator[WireBucket], fail_point: str) -> Iterator[WireBucket]:
    for count, bucket in enumerate(buckets):
        if count == _HALF_BUCKETS:
            reach("publish.half", fail_point)
        yield bucket


def _fenced(buckets: Iterator[WireBucket], ask: Callable[[], None]) -> Iterator[WireBucket]:
    """Asks again after each moment: a task that was paused must not write over what others have made meanwhile."""
    asked_s = time.monotonic()
    for bucket in buckets:
        if time.monotonic() - asked_s > _ASK_AGAIN_S:
            ask()
            asked_s = time.monotonic()
        yield bucket


@dataclass(frozen=True)
class Outcome:
    """Rows written, or why not, in words."""

    rows: int = 0
    damaged: str | None = None
    not_taken: str | None = None


def rows_of(outcomes: Sequence[Outcome]) -> int:
    """Rows written. Raises DamagedScores where a part is damaged, otherwise NotTaken where one was not written."""
    for one in outcomes:
        if one.damaged:
            raise DamagedScores(one.damaged)
    missing = [one.not_taken for one in outcomes if one.not_taken]
    if missing:
        raise NotTaken(f"{len(missing)} of {len(outcomes)} score files could not be written: {missing[0]}")
    return sum(one.rows for one in outcomes)
