"""Bundles that give vectors and top-k lists: built, checked, described, and scored as Spark's workers do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batch_scoring.bundle.__main__ import main
from batch_scoring.scoring.model import worker_model
from batch_scoring.scoring.score_split import score_block
from batch_scoring.scoring.task import ScoreTask
from runtime.program import load_program
from schemas.bundle import Bundle, BundleError, load_transform, read_folder
from schemas.codec import pack_rows
from schemas.manifest import BASELINE_FILE, MANIFEST_FILE
from schemas.outputs import calibrate
from tests.support.list_bundles import TOPICS, topics_bundle, vector_bundle


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return topics_bundle(tmp_path_factory.mktemp("topics") / "bundle")


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return vector_bundle(tmp_path_factory.mktemp("embedder") / "bundle")


def test_golden_rows_are_the_stored_ones(topics: Bundle, embedder: Bundle) -> None:
    assert {len(row.outputs) for row in topics.manifest.golden} == {11}
    assert {len(row.outputs) for row in embedder.manifest.golden} == {65}
    assert (topics.manifest.output.model_width, embedder.manifest.output.model_width) == (51, 65)


@pytest.mark.parametrize("is_tie", [True, False])
def test_golden_labels_that_changed_places_are_refused_unless_they_tie(
    topics: Bundle, tmp_path: Path, is_tie: bool
) -> None:
    folder = Path(shutil.copytree(topics.folder, tmp_path / "bundle"))
    document = json.loads((folder / MANIFEST_FILE).read_text())
    rows = (golden["outputs"] for golden in document["golden"])
    row = next(row for row in rows if (row[1] == row[3]) is is_tie)
    row[0], row[2] = row[2], row[0]
    (folder / MANIFEST_FILE).write_text(json.dumps(document))
    manifest = read_folder(folder).manifest
    if is_tie:
        load_program(folder, manifest)
    else:
        with pytest.raises(BundleError, match=r"topics\[0\].label is"):
            load_program(folder, manifest)


def test_the_baseline_has_scores_by_rank_and_the_best_labels(topics: Bundle, embedder: Bundle) -> None:
    rows = {row["name"]: row for row in pq.read_table(topics.folder / BASELINE_FILE).to_pylist()}
    assert sorted(rows) == sorted(
        ["topics[0].label", *(f"topics[{rank}].score" for rank in range(5)), "late", "x", "y"]
    )
    best = rows["topics[0].label"]
    assert (best["side"], best["type"], sum(best["counts"])) == ("output", "category", 60)
    assert set(best["values"]) <= set(TOPICS)
    names = pq.read_table(embedder.folder / BASELINE_FILE)["name"].to_pylist()
    assert names == ["x", "y", "late", *(f"embedding[{place}]" for place in range(64))]


def test_check_tells_what_is_given(topics: Bundle, embedder: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(topics.folder)]) == main(["check", str(embedder.folder)]) == 0
    told = capsys.readouterr().out
    for words in ("the 5 best of 50 labels", "64 numbers", "a number", "7, 0.5"):
        assert words in told


@pytest.mark.parametrize("which", ["topics", "embedder"])
def test_spark_s_workers_pack_what_a_bare_call_gives(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bundle: Bundle = request.getfixturevalue(which)
    entities = [f"e{i}" for i in range(40)]
    columns = {"x": [float(i - 20) for i in range(40)], "y": [float(i % 3) for i in range(40)]}
    columns["x"][7] = 3e38  # a sum over it overflows
    task = ScoreTask(
        bundle_url=str(bundle.folder),
        digest=bundle.digest,
        cache_dir=str(tmp_path),
        allowed_urls=(str(bundle.folder),),
        device="cpu",
        work_url=str(tmp_path),
        forward_rows=16,
        block_bytes=1 << 20,
        buckets=1,
        parts=1,
        ordinal=9,
        computed_at_ms=1_700_000_000_000,
    )
    rows = pa.RecordBatch.from_pydict({"entity": entities, **columns})
    done, rejects = score_block(rows, task, worker_model(task))
    assert rejects is not None
    assert [(row["entity"], row["reason"]) for row in rejects.to_pylist()] == [("e7", "output_not_finite")]
    good = [row for row in range(40) if row != 7]
    program, transform = (
        load_program(bundle.folder, bundle.manifest),
        load_transform(bundle.folder, bundle.manifest),
    )
    records = [{"x": columns["x"][row], "y": columns["y"][row]} for row in good]
    outputs = calibrate(bundle.manifest.output, program(transform.records(records).tensors))
    packed = pack_rows([entities[row].encode() for row in good], 9, 1_700_000_000_000, outputs)
    assert done["entity"].to_pylist() == [entities[row] for row in good]
    assert done["packed"].to_pylist() == packed
    assert np.isfinite(outputs).all()
