"""The task that scores: a split of the features, its hot rows through the model, packed, and kept by part.

Features go from Parquet to torch in this process: by way of Spark's rows and back each row would cost as much
again as small models take. What leaves is an entity and its packed value.
"""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from batch_scoring.files import file_system
from batch_scoring.score_files import part_of
from batch_scoring.scoring.hot import Keys, are_hot, hot_keys
from batch_scoring.scoring.model import WorkerModel, worker_model
from batch_scoring.scoring.splits import read_split
from batch_scoring.scoring.task import Scored, ScoreTask, Split
from schemas.arrow import REJECTS, SCORES
from schemas.codec import Float32Array, pack_matrix
from schemas.features import Transformed
from schemas.keys import bucket_of
from schemas.outputs import finite_rows

# Forwards that are transformed at once: each column costs a few calls, however few its rows.
_BLOCK_FORWARDS = 4
# Scored rows that a task holds, about, before it writes them.
_KEPT_ROWS = 200_000


@dataclass
class _Kept:
    """What a task has so far."""

    task: ScoreTask
    scores: list[pa.RecordBatch] = field(default_factory=list)
    rejects: list[pa.RecordBatch] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    rows: int = 0
    waiting: int = 0

    def add(self, scores: pa.RecordBatch, rejects: pa.RecordBatch | None) -> None:
        self.scores.append(scores)
        self.rows += scores.num_rows
        self.waiting += scores.num_rows
        if rejects is not None:
            self.rejects.append(rejects)
        if self.waiting >= _KEPT_ROWS:
            self.write()

    def write(self) -> None:
        """Writes the rows that wait as one file with a batch for each part, so that a reader of one finds it."""
        if not self.waiting:
            return
        rows = pa.concat_batches(self.scores)
        parts = part_of(rows.column("bucket").to_numpy().astype(np.int64), self.task.buckets, self.task.parts)
        rows = rows.take(pa.array(np.argsort(parts, kind="stable")))
        ends = np.cumsum(np.bincount(parts, minlength=self.task.parts)).tolist()
        slices = (rows.slice(begin, end - begin) for begin, end in zip([0, *ends], ends, strict=False))
        self.files.append(_write(self.task, "scored", slices, SCORES))
        self.scores, self.waiting = [], 0


def score_split(split: Split, task: ScoreTask) -> Scored:
    """Scores the hot rows of a split."""
    model, kept = worker_model(task), _Kept(task)
    for block in _blocks(split, task, model, hot_keys(task.work_url)):
        kept.add(*score_block(block, task, model))
    kept.write()
    rejects = _write(task, "rejects", kept.rejects, REJECTS) if kept.rejects else None
    rejected = sum(batch.num_rows for batch in kept.rejects)
    return Scored(tuple(kept.files), kept.rows, rejects, rejected, model.name)


def score_splits(task: ScoreTask, splits: Iterable[Split]) -> Iterator[Scored]:
    for split in splits:
        yield score_split(split, task)


def _blocks(split: Split, task: ScoreTask, model: WorkerModel, hot: Keys) -> Iterator[pa.RecordBatch]:
    """The split's hot rows, as many at a time as make full forwards, or as the bound in bytes allows."""
    wanted = _BLOCK_FORWARDS * task.forward_rows
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in read_split(split, ["entity", *model.manifest.feature_names], wanted, task.block_bytes):
        found = batch.filter(pa.array(are_hot(batch.column("entity"), hot)))
        waiting.append(found)
        rows, size = rows + found.num_rows, size + found.nbytes
        if rows >= wanted or size >= task.block_bytes:
            block = pa.concat_batches(waiting)
            yield block.slice(0, wanted)
            waiting, rows = [block.slice(wanted)], max(0, rows - wanted)
            size = waiting[0].nbytes
    if rows:
        yield pa.concat_batches(waiting)


def score_block(
    batch: pa.RecordBatch, task: ScoreTask, model: WorkerModel
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """(n,) rows of features to those that have a score, as `SCORES`, and those that have none, as `REJECTS`."""
    done = model.transformed(batch)
    outputs = model.outputs(done, task.forward_rows)
    bad = _bad_rows(done, outputs)
    entities, rejects = batch.column("entity"), None
    if bad:
        places = np.array(sorted(bad))
        columns = [entities.take(pa.array(places)), *zip(*(bad[row] for row in places.tolist()), strict=True)]
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, REJECTS, strict=True)]
        rejects = pa.RecordBatch.from_arrays(arrays, schema=REJECTS)
        good = np.delete(np.arange(batch.num_rows), places)
        entities, outputs = entities.take(pa.array(good)), outputs[good]
    raw = entities.cast(pa.binary()).to_pylist()
    buckets = np.fromiter((bucket_of(entity, task.buckets) for entity in raw), np.int32, len(raw))
    packed = pack_matrix(raw, task.ordinal, task.computed_at_ms, outputs)
    return pa.RecordBatch.from_arrays([entities, pa.array(buckets), _binary(packed)], schema=SCORES), rejects


def _bad_rows(done: Transformed, outputs: Float32Array) -> dict[int, tuple[str, str]]:
    """Reason and detail of each row that has no score."""
    bad: dict[int, tuple[str, str]] = {}
    for problem in done.problems:
        bad.setdefault(problem.row, ("invalid_features", f"{problem.feature} {problem.reason}"))
    for row in np.flatnonzero(~finite_rows(outputs)).tolist():
        bad.setdefault(row, ("output_not_finite", str(outputs[row].tolist())))
    return bad


def _binary(matrix: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> pa.BinaryArray:
    """(n, width) bytes as n values of that width."""
    rows, width = matrix.shape
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def _write(task: ScoreTask, what: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
    """Writes a file that no other attempt of the task can have written; returns its name."""
    name = f"{what}-{uuid.uuid4().hex}.arrow"
    filesystem, folder = file_system(task.work_url)
    with filesystem.open(f"{folder}/{name}", "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return name
