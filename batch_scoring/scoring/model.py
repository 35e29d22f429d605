"""The model in a Spark worker: loaded once a Python process, on the device that Spark gives the task."""

import ctypes
import gc
import uuid
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyspark import TaskContext

from batch_scoring.scoring.task import ScoreTask
from runtime.program import Program, load_program, set_threads
from schemas.bundle import fetch_bundle, load_transform
from schemas.codec import Float32Array
from schemas.features import Column, Transformed
from schemas.manifest import CategoryFeature, Manifest, TextFeature
from schemas.outputs import calibrate

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BLOCK_BYTES = 4 << 20
_KEPT_BYTES = 64 << 20


class NoDevice(Exception):
    """The task was promised a GPU and has none: on a CPU it would take the night's whole time in silence."""


class WorkerModel:
    """A loaded bundle. `name` is of this loading: the distinct names in the output are the loads."""

    def __init__(self, task: ScoreTask, device: str) -> None:
        _bound_heap()
        _bound_threads()
        bundle = fetch_bundle(task.bundle_url, task.digest, Path(task.cache_dir), task.allowed_urls)
        self.name = uuid.uuid4().hex
        self.manifest: Manifest = bundle.manifest
        self.program: Program = load_program(bundle.folder, bundle.manifest, device)
        self.transform = load_transform(bundle.folder, bundle.manifest)
        if TaskContext.get() is not None:
            # Spark's workers collect garbage after each task: going through all of torch took 0.2 s each time.
            gc.freeze()

    def transformed(self, batch: pa.RecordBatch) -> Transformed:
        return self.transform.columns(feature_columns(batch, self.manifest), batch.num_rows)

    def outputs(self, done: Transformed, most: int) -> Float32Array:
        """(rows, W) stored outputs, in forwards of at most `most` rows of one shape."""
        out = np.empty((done.rows, self.manifest.output.stored_width), dtype=np.float32)
        for group in done.groups():
            for start in range(0, len(group), most):
                rows = group[start : start + most]
                out[rows] = calibrate(self.manifest.output, self.program(done.take(rows)))
        return out


@cache
def _bound_heap() -> None:
    """Has large blocks mapped, each by itself, and given back when they are freed; smaller ones stay at hand.

    glibc takes what is as large as one it has freed from its heap, where a few small blocks that stay keep it from
    being given back: a worker grew by 40 MB with every four forwards of 1,024 rows through 2,200 units, until its
    split ended. But what is given back after each forward comes as pages that the kernel clears: with all over
    1 MiB mapped, a small network took half as much CPU again. Source: mallopt(3).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


@cache
def _bound_threads() -> None:
    """Spark runs as many tasks as there are cores, each in a Python of its own: more threads would take turns.

    Once a process: torch refuses to change its threads between operators later.
    """
    context = TaskContext.get()
    if context is None:  # not Spark's process: its threads are somebody else's to bound
        return
    threads = context.cpus()
    set_threads(threads)
    torch.set_num_interop_threads(threads)
    pa.set_cpu_count(threads)


_loaded: dict[tuple[str, str], WorkerModel] = {}


def worker_model(task: ScoreTask) -> WorkerModel:
    """The model of this process; it loads with the first task, and not again, on each device it is given."""
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


def feature_columns(batch: pa.RecordBatch, manifest: Manifest) -> dict[str, Column]:
    """Feature columns of a batch as the transform takes them."""
    return {
        feature.name: batch.column(feature.name).to_pylist()
        if isinstance(feature, CategoryFeature | TextFeature)
        else batch.column(feature.name).cast(pa.float32()).to_numpy(zero_copy_only=False)
        for feature in manifest.features
    }
