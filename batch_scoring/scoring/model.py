"""The model in a Spark worker: loaded once a Python process, on the device that Spark gives the task."""

import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from runtime.program import Program, load_program, set_threads
from schemas.bundle import fetch_bundle, load_transform
from schemas.codec import Float32Array, pack_rows
from schemas.features import Column, Transformed
from schemas.keys import bucket_of
from schemas.manifest import CategoryFeature, Manifest, TextFeature
from schemas.outputs import calibrate, finite_rows

SCORED_SCHEMA = "entity string, bucket int, packed binary, reason string, detail string, worker string"
SCORED = pa.schema(
    [
        pa.field("entity", pa.string()),
        pa.field("bucket", pa.int32()),
        pa.field("packed", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("worker", pa.string()),
    ]
)


class NoDevice(Exception):
    """The task was promised a GPU and has none: on a CPU it would take the night's whole time in silence."""


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """What a worker needs to know, small enough to travel with each task.

    The bundle is named, not its copy: a worker on another machine fetches and checks its own.
    """

    bundle_url: str
    digest: str
    cache_dir: str
    allowed_urls: tuple[str, ...]
    device: str
    max_rows: int
    buckets: int
    ordinal: int
    computed_at_ms: int


class WorkerModel:
    """A loaded bundle. `name` is of this loading: the distinct names in the output are the loads."""

    def __init__(self, task: ScoreTask, device: str) -> None:
        context = TaskContext.get()
        # Spark runs as many tasks as there are cores, each in a Python of its own: more threads would take turns.
        set_threads(context.cpus() if context else 1)
        bundle = fetch_bundle(task.bundle_url, task.digest, Path(task.cache_dir), task.allowed_urls)
        self.name = uuid.uuid4().hex
        self.manifest: Manifest = bundle.manifest
        self.program: Program = load_program(bundle.folder, bundle.manifest, device)
        self.transform = load_transform(bundle.folder, bundle.manifest)


_loaded: dict[tuple[str, str], WorkerModel] = {}


def worker_model(task: ScoreTask) -> WorkerModel:
    """The model of this process; it loads at the first batch, and not again, on each device it is given."""
    # Asked for each task: Spark may run the next one in this process, and give it another GPU.
    key = task.digest, task_device(task.device)
    found = _loaded.get(key)
    if found is None:
        found = _loaded[key] = WorkerModel(task, key[1])
    return found


def task_device(wanted: str) -> str:
    """The device of this task. Raises NoDevice where it was promised a GPU and has none."""
    if wanted != "cuda":
        return wanted
    context = TaskContext.get()
    addresses = context.resources()["gpu"].addresses if context and "gpu" in context.resources() else []
    if not addresses:
        raise NoDevice("BATCH_DEVICE=cuda, but Spark gave the task no gpu: set spark.task.resource.gpu.amount")
    return f"cuda:{addresses[0]}"


def score_batch(batch: pa.RecordBatch, task: ScoreTask) -> pa.RecordBatch:
    """Scores the rows of one Arrow batch: packed predictions, or for a row that has none the reason."""
    model = worker_model(task)
    rows = batch.num_rows
    entities: list[str] = batch.column("entity").to_pylist()
    done = model.transform.columns(_columns(batch, model.manifest), rows)
    reasons: list[str | None] = [None] * rows
    details: list[str | None] = [None] * rows
    for problem in done.problems:
        reasons[problem.row], details[problem.row] = "invalid_features", f"{problem.feature} {problem.reason}"
    outputs = _outputs(model, done, min(task.max_rows, model.manifest.max_batch_rows))
    for place in np.flatnonzero(~finite_rows(outputs)):
        row = int(place)
        if reasons[row] is None:
            reasons[row], details[row] = "output_not_finite", str(outputs[row].tolist())
    raw = [entity.encode() for entity in entities]
    good = [row for row in range(rows) if reasons[row] is None]
    values: list[bytes | None] = [None] * rows
    packed = pack_rows([raw[row] for row in good], task.ordinal, task.computed_at_ms, outputs[good])
    for row, value in zip(good, packed, strict=True):
        values[row] = value
    columns = [
        pa.array(entities, pa.string()),
        pa.array([bucket_of(entity, task.buckets) for entity in raw], pa.int32()),
        pa.array(values, pa.binary()),
        pa.array(reasons, pa.string()),
        pa.array(details, pa.string()),
        pa.array([model.name] * rows, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCORED)


def _columns(batch: pa.RecordBatch, manifest: Manifest) -> dict[str, Column]:
    return {
        feature.name: batch.column(feature.name).to_pylist()
        if isinstance(feature, CategoryFeature | TextFeature)
        else batch.column(feature.name).cast(pa.float32()).to_numpy(zero_copy_only=False)
        for feature in manifest.features
    }


def _outputs(model: WorkerModel, done: Transformed, most: int) -> Float32Array:
    """(rows, W) stored outputs, in forwards of at most `most` rows of one shape."""
    out = np.empty((done.rows, model.manifest.output.stored_width), dtype=np.float32)
    for group in done.groups():
        for start in range(0, len(group), most):
            rows = group[start : start + most]
            out[rows] = calibrate(model.manifest.output, model.program(done.take(rows)))
    return out
