"""The tasks of scoring, called as Spark would: what they leave, and that another attempt changes nothing."""

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest

from batch_scoring.score_files import part_count
from batch_scoring.scoring.hot import write_hot_keys
from batch_scoring.scoring.score_split import score_splits
from batch_scoring.scoring.splits import plan_splits
from batch_scoring.scoring.task import Scored, ScoreTask
from batch_scoring.scoring.write_parts import PartTask, Written, commit_parts, write_parts
from schemas.bundle import Bundle, BundleError
from schemas.keys import bucket_count
from schemas.manifest import MANIFEST_FILE, bundle_digest
from tests.support.bundles import linear_bundle, log_bundle
from tests.support.scoring_run import ScoringRun, linear_rows, scoring_run


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("bundles") / "tiny")


@pytest.fixture
def run(tmp_path: Path, bundle: Bundle) -> ScoringRun:
    rows = linear_rows(5_000)
    rows["F000007"]["distance"] = -1.0
    return scoring_run(tmp_path / "run", bundle, rows, [*list(rows)[::2], "F000007"], files=3)


def task_of(run: ScoringRun, name: str = "work", parts: int = 4) -> ScoreTask:
    work = run.folder / name
    work.mkdir()
    write_hot_keys(run.run.place("hotset"), str(work))
    hot = 2_501
    assert part_count(hot, bucket_count(hot)) == 1
    return ScoreTask(
        bundle_url=run.run.bundle_url,
        digest=run.run.bundle_digest,
        cache_dir=str(run.folder / "cache"),
        allowed_urls=(run.run.bundle_url,),
        device="cpu",
        work_url=str(work),
        forward_rows=64,
        block_bytes=1 << 20,
        buckets=bucket_count(hot),
        parts=parts,
        ordinal=run.run.ordinal,
        computed_at_ms=run.run.started_at_ms,
    )


def put_together(run: ScoringRun, task: ScoreTask, scored: list[Scored], times: int = 1) -> list[Written]:
    files = tuple(name for one in scored for name in one.files)
    target = str(run.folder / "scores")
    todo = [PartTask(number, task.work_url, files, target) for number in range(task.parts)]
    attempts = [list(write_parts(todo)) for _ in range(times)]
    return commit_parts(target, attempts[0])


def test_the_hot_rows_get_what_bare_torch_gives_and_a_bad_one_its_reason(run: ScoringRun) -> None:
    task = task_of(run)
    scored = list(score_splits(task, plan_splits(run.run.place("features"), 1)))
    written = put_together(run, task, scored)
    found = run.scores()
    assert set(found) == set(list(run.features)[::2])
    np.testing.assert_allclose(np.array(list(found.values())), run.bare(list(found)), rtol=1e-5, atol=1e-6)
    assert sum(one.rejected for one in scored) == 1
    rejects = next(one.rejects for one in scored if one.rejects)
    with pa.ipc.open_file(Path(task.work_url) / rejects) as reader:
        (reject,) = reader.read_all().to_pylist()
    assert (reject["entity"], reject["reason"]) == ("F000007", "invalid_features")
    assert len(written) == 4
    ranges = [(one.part.first_bucket, one.part.last_bucket) for one in written]
    assert ranges == sorted(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))


def test_a_second_attempt_of_a_task_leaves_the_same_bytes_and_nothing_else(run: ScoringRun) -> None:
    splits = plan_splits(run.run.place("features"), 1)
    task = task_of(run)
    first = list(score_splits(task, splits))
    second = list(score_splits(task, splits))  # its files lie beside the first one's
    assert set(first[0].files).isdisjoint(second[0].files)
    once = put_together(run, task, first)
    again = put_together(run, task, second, times=2)
    assert [one.part for one in again] == [one.part for one in once]
    assert sum(one.part.rows for one in once) == 2_500
    assert sorted(path.name for path in (run.folder / "scores").iterdir()) == [one.part.name for one in once]


def test_blocks_of_a_few_rows_give_the_same_entities(run: ScoringRun) -> None:
    task = replace(task_of(run), block_bytes=1_000)
    scored = list(score_splits(task, plan_splits(run.run.place("features"), 1)))
    put_together(run, task, scored)
    assert len(run.scores()) == 2_500


def test_outputs_that_are_not_finite_are_rejected_and_a_split_of_nothing_else_leaves_no_scores(
    tmp_path: Path,
) -> None:
    rows = {f"e{x}": {"x": float(x)} for x in (0, -1, -2)}
    run = scoring_run(tmp_path / "run", log_bundle(tmp_path / "log"), rows, list(rows))
    task = task_of(run)
    (scored,) = score_splits(task, plan_splits(run.run.place("features"), 1))
    assert (scored.files, scored.rows, scored.rejected) == ((), 0, 3)
    with pa.ipc.open_file(Path(task.work_url) / str(scored.rejects)) as reader:
        assert {row["reason"] for row in reader.read_all().to_pylist()} == {"output_not_finite"}


def test_a_bundle_whose_golden_rows_do_not_come_out_scores_nothing(run: ScoringRun, tmp_path: Path) -> None:
    """The check that the live tier makes: the files are whole, by a manifest that was told another answer."""
    folder = tmp_path / "other"
    shutil.copytree(run.run.bundle_url, folder)
    manifest = orjson.loads((folder / MANIFEST_FILE).read_bytes())
    manifest["golden"][0]["outputs"][0] += 0.01
    raw = orjson.dumps(manifest)
    (folder / MANIFEST_FILE).write_bytes(raw)
    told = replace(task_of(run), bundle_url=str(folder), digest=bundle_digest(raw), allowed_urls=(str(folder),))
    with pytest.raises(BundleError, match="golden row 0 at batch 1"):
        list(score_splits(told, plan_splits(run.run.place("features"), 1)))
    assert list(Path(told.work_url).glob("*.arrow")) == []


def test_loads_are_counted_by_process(run: ScoringRun) -> None:
    task = task_of(run)
    splits = plan_splits(run.run.place("features"), 8)
    assert len(splits) == 3
    scored = [*score_splits(task, splits), *score_splits(task, splits)]
    assert len({one.load for one in scored}) == 1
