"""The score step on real Spark: models and threads of its workers, what it reports, and when it is done again."""

import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from batch_scoring.score_files import parts_of
from batch_scoring.session import TaskFailed, run_tasks
from schemas.arrow import REJECTS, SCORES
from schemas.bundle import Bundle
from tests.support.bundles import linear_bundle
from tests.support.scoring_run import ScoringRun, linear_rows, scoring_run

pytestmark = pytest.mark.spark

ROWS, FILES = 12_000, 6


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("bundles") / "tiny")


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> ScoringRun:
    rows = linear_rows(ROWS)
    rows["F000003"]["distance"] = None
    made = scoring_run(tmp_path / "run", bundle, rows, list(rows), files=FILES)
    environment = made.environment() | {"BATCH_ALLOWED_BUNDLE_URLS": f'["{bundle.folder}"]'}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_step_reports_what_it_wrote_and_loads_a_model_once_a_worker(run: ScoringRun) -> None:
    assert run.score() == 0
    report = run.report()
    assert (report["rows"], report["rejected"], report["buckets"]) == (ROWS - 1, 1, 125)
    # Six tasks and more, on two cores.
    assert report["model_loads"] in (1, 2)
    parts = parts_of(run.run)
    assert sum(part.rows for part in parts) == ROWS - 1
    assert [path.name for path in sorted((run.folder / "scores").iterdir())] == [part.name for part in parts]
    for name, schema in (("scores", SCORES), ("rejects", REJECTS)):
        for path in (run.folder / name).iterdir():
            assert pq.read_schema(path).remove_metadata() == schema
    sample = list(run.features)[::97]
    scores = run.scores()
    np.testing.assert_allclose([scores[one] for one in sample], run.bare(sample), rtol=1e-5, atol=1e-6)
    assert run.leftovers() == []


def test_files_that_are_not_what_was_scored_are_scored_again(run: ScoringRun) -> None:
    assert run.score() == 0
    report = run.folder / "report-score.json"
    before, stamp = run.report(), report.stat().st_mtime_ns
    part = next((run.folder / "scores").iterdir())
    data = part.read_bytes()
    assert run.score() == 0
    assert report.stat().st_mtime_ns == stamp  # nothing to do

    for disturb in (
        part.unlink,
        partial(part.write_bytes, data[:-100]),
        partial(part.write_bytes, data[:500] + bytes([data[500] ^ 1]) + data[501:]),
        partial(shutil.rmtree, run.folder / "rejects"),
    ):
        disturb()
        assert run.score() == 0
        assert report.stat().st_mtime_ns > stamp
        after, stamp = run.report(), report.stat().st_mtime_ns
        for name in ("rows", "checksum", "parts"):
            assert after[name] == before[name]
        assert part.read_bytes() == data


def test_what_killed_attempts_left_goes_with_the_one_that_ends(run: ScoringRun) -> None:
    for name in ("_scoring-0123", "_scores-4567"):
        (run.folder / name).mkdir()
        (run.folder / name / "part-00000.parquet").write_bytes(b"half")
    assert run.score() == 0
    assert run.leftovers() == []


def test_hot_entities_without_features_end_the_step_in_words(
    tmp_path: Path, run: ScoringRun, bundle: Bundle
) -> None:
    rows = linear_rows(10)
    other = scoring_run(tmp_path / "other", bundle, rows, [*rows, "unknown"])
    with pytest.raises(RuntimeError, match="11 hot entities gave 10 scores and 0 rejects: the features lack some"):
        other.score()
    assert not (other.folder / "scores").exists()
    assert other.leftovers() == []


def test_too_many_rejects_leave_no_scores(tmp_path: Path, run: ScoringRun, bundle: Bundle) -> None:
    rows = linear_rows(10)
    rows["F000001"]["distance"] = -1.0
    other = scoring_run(tmp_path / "other", bundle, rows, list(rows))
    assert other.score() == 2
    assert not (other.folder / "scores").exists()
    (reject,) = pq.read_table(other.folder / "rejects").to_pylist()
    assert "distance must be a finite number >= 0" in reject["detail"]


def test_torch_takes_the_threads_that_spark_gave_the_task(spark: SparkSession, run: ScoringRun) -> None:
    # In the test, and so sent as it is: a worker that imported this file would import the tests' helpers too.
    def threads(tasks: Iterable[int]) -> Iterator[tuple[int, int, int] | None]:
        import pyarrow
        import torch

        from batch_scoring.scoring import model

        for _ in tasks:
            found = torch.get_num_threads(), torch.get_num_interop_threads(), pyarrow.cpu_count()
            yield found if model._loaded else None

    assert run.score() == 0
    cpus = int(spark.sparkContext.getConf().get("spark.task.cpus", "1"))
    assert set(filter(None, run_tasks(spark, threads, [1, 2, 3, 4]))) == {(cpus, cpus, cpus)}


def test_the_error_of_a_task_comes_as_one_line(spark: SparkSession) -> None:
    def fail(tasks: Iterable[int]) -> Iterator[int]:
        raise OSError(28, "no room")

    with pytest.raises(TaskFailed, match=r"^OSError: \[Errno 28\] no room$"):
        run_tasks(spark, fail, [1])
