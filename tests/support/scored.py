"""A scored night without Spark: score files of several parts, and publishing them in this process."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from redis import Redis

from batch_scoring.checksum import add, as_text
from batch_scoring.publishing.publish_job import publish
from batch_scoring.publishing.sink import Outcome, Sink
from batch_scoring.runs import Role, Run
from batch_scoring.score_files import FOLDER, part_name, part_of, write_part
from batch_scoring.settings import BatchSettings
from schemas.arrow import SCORES
from schemas.codec import Float32Array, pack_rows
from schemas.keys import bucket_count, bucket_key, bucket_of

MODEL, VERSION, GENERATION = "m", "1", "20261128T0200Z-1"
PARTS = 4


def scored(
    folder: Path | str, entities: Sequence[str], parts: int = PARTS, value: float = 0.5, width: int = 2
) -> Run:
    """A run whose score step is done; each entity's outputs are `value` and its number, or more of them.

    `folder`: or a URL of fsspec's.
    """
    run = Run(
        model=MODEL,
        version=VERSION,
        bundle_url="none",
        bundle_digest="0" * 64,
        as_of=datetime(2026, 11, 28, 2, tzinfo=UTC),
        generation=GENERATION,
        ordinal=1,
        started_at_ms=1_795_831_200_000,
        run_key="night",
        token=1,
        role=Role.STABLE,
        url=f"{folder}/runs/{GENERATION}/run.json",
    )
    run.save()
    outputs = np.full((len(entities), width), value, np.float32)
    outputs[:, 1] = np.arange(len(entities))
    write_scores(run, entities, outputs, parts)
    return run


def write_scores(run: Run, entities: Sequence[str], outputs: Float32Array, parts: int) -> None:
    """What the score step of the run leaves. `outputs`: (n, W)."""
    raw, buckets = [entity.encode() for entity in entities], bucket_count(len(entities))
    numbers = np.array([bucket_of(entity, buckets) for entity in raw], np.int32)
    packed = pack_rows(raw, run.ordinal, run.started_at_ms, outputs)
    table = pa.Table.from_arrays(
        [pa.array(list(entities), pa.string()), pa.array(numbers), pa.array(packed)], SCORES.names
    )
    written, checksum = [], 0
    for place in range(parts):
        rows = table.filter(pa.array(part_of(numbers, buckets, parts) == place)) if len(raw) else table
        if rows.num_rows:
            part, digest = write_part(run.place(FOLDER), part_name(place), rows)
            written.append(part.model_dump())
            checksum = add(checksum, digest)
    filled = len(set(numbers.tolist()))
    report = {"rows": len(raw), "buckets": buckets, "filled_buckets": filled, "outputs": outputs.shape[1]}
    run.finish("score", {**report, "parts": written, "checksum": as_text(checksum)})


class Here:
    """Runs the tasks in this process, one after the other; `written` are the places that were asked for."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def __call__(self, run: Run, sink: Sink, places: Sequence[int]) -> list[Outcome]:
        self.written += places
        return [sink.write(place) for place in places]


def publish_here(run: Run, settings: BatchSettings) -> list[int]:
    """Publishes, and keeps the report as the step does; returns the places of the parts that were written."""
    here = Here()
    run.finish("publish", publish(run, settings, here))
    return here.written


def stored(redis: "Redis[bytes]", run: Run) -> dict[bytes, bytes]:
    """Field by field what the generation holds, in all its buckets."""
    found: dict[bytes, bytes] = {}
    for bucket in range(run.count("score", "buckets")):
        found |= redis.hgetall(bucket_key(run.model, run.version, run.generation, bucket))
    return found
