"""Bare loop and Spark take turns on the same files of each model."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from batch_scoring.session import spark_session
from schemas.outputs import misfits
from tests.bench.scoring.bare import BareRun, bare_loop
from tests.bench.scoring.models import Model
from tests.bench.scoring.night import begin
from tests.bench.scoring.plan import GROWTH, Plan
from tests.bench.scoring.product import outputs_of, run_score
from tests.bench.scoring.results import ModelResult

log = logging.getLogger(__name__)

_MIN_ROWS = 1024


@contextmanager
def session() -> Iterator[tuple[int, float]]:
    """The product's session, begun before a step would begin it: cores, and seconds that it took to start."""
    began_s = time.perf_counter()
    with spark_session("hotset-bench") as spark:
        yield spark.sparkContext.defaultParallelism, time.perf_counter() - began_s


def measure_model(folder: Path, model: Model, cores: int, plan: Plan) -> ModelResult:
    """In a session. What starts Spark's Python and loads the model is a small run of its own, timed apart.

    A tenth of the rows comes before all of them: for the memory of a worker, and for the time that a run takes
    however few its rows.
    """
    small = begin(model.bundle, "small", plan.warm_rows, model.columns)
    with bare_loop(model.bundle.folder, cores, folder) as loop:
        loop.run(small.features)
        speed = loop.run(small.features).rows_per_s
        rows = max(_MIN_ROWS, round(speed * plan.models[model.name] / GROWTH))
        log.info("%s: the bare loop does %.0f rows/s: writing %d rows", model.name, speed, GROWTH * rows)
        tenth, large = (
            begin(model.bundle, f"rows-{count}", count, model.columns) for count in (rows, GROWTH * rows)
        )
        first, few = run_score(small), run_score(tenth)
        runs, bare = [], [_bare(model, loop.run(large.features))]
        for _ in range(plan.rounds):
            # Spark ends workers that had nothing to do for a minute: they start again, and nothing of it counts.
            run_score(small)
            runs.append(run_score(large))
            log.info("%s: Spark %.0f rows/s", model.name, runs[-1].rows_per_s)
            bare.append(_bare(model, loop.run(large.features)))
    found = outputs_of(large)
    wrong, largest = _wrong(model, found, bare[-1]), _largest(found, bare[-1])
    return ModelResult(model.name, first.seconds, few, runs, bare, wrong, largest)


def _bare(model: Model, run: BareRun) -> BareRun:
    log.info("%s: bare loop %.0f rows/s", model.name, run.rows_per_s)
    return run


def _wrong(model: Model, found: np.ndarray, bare: BareRun) -> int:
    """Rows that are missing, or whose outputs differ by more than the bundle's tolerance."""
    if found.shape != bare.outputs.shape:
        return max(1, abs(len(found) - len(bare.outputs)))
    manifest = model.bundle.manifest
    return int(misfits(manifest.output, manifest.tolerance, found, bare.outputs).any(axis=1).sum())


def _largest(found: np.ndarray, bare: BareRun) -> float:
    return float(np.abs(found - bare.outputs).max()) if found.shape == bare.outputs.shape else float("nan")
