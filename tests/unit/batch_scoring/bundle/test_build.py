"""Building: what a bundle holds follows from the exported program, and edges and NaN are kept apart."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
from runtime.program import Program, load_program
from schemas.arrow import BASELINE
from schemas.bundle import Bundle, BundleError
from schemas.features import FeatureTransform
from schemas.manifest import BASELINE_FILE, MODEL_FILE, InputTensor, NumberFeature, Output, OutputSpecification
from schemas.outputs import AnswerMaker, calibrate, finite_rows
from tests.support.bundles import Linear, edge_bundle, linear_bundle, log_bundle

SPECIFICATION = Specification(
    name="tiny",
    version="1",
    created_at="2026-11-29T00:00:00Z",
    features=(NumberFeature(name="x"),),
    inputs=(InputTensor(name="x", dtype="float32", features=("x",)),),
    output=OutputSpecification(outputs=(Output(name="y"),)),
    max_batch_rows=8,
)
COLUMNS = {"x": [1.0, 2.0, 3.0]}


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("bundle") / "1")


@pytest.fixture(scope="module")
def program(good: Bundle) -> Program:
    return load_program(good.folder, good.manifest)


@pytest.mark.parametrize("rows", [1, 2, 3, 63, 64])
def test_the_program_answers_as_the_module(good: Bundle, program: Program, rows: int) -> None:
    records = [{"distance": 100.0 * row, "delay": None, "airline": "UA"} for row in range(rows)]
    tensors = FeatureTransform(good.manifest).records(records).tensors

    found = program(tensors)

    with torch.inference_mode():
        expected = Linear(0)(torch.from_numpy(tensors["numbers"]), torch.from_numpy(tensors["airline"])).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == np.float32


def test_read_only_tensors_are_taken(good: Bundle, program: Program) -> None:
    tensors = FeatureTransform(good.manifest).records([{"distance": 1.0}]).tensors
    for tensor in tensors.values():
        tensor.flags.writeable = False

    assert program(tensors).shape == (1, 2)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"numbers": np.zeros((2, 2), np.float32)},
        {"numbers": np.zeros((2, 3), np.float32), "airline": np.zeros((2, 1), np.int64)},
        {"numbers": np.zeros((2, 2), np.float64), "airline": np.zeros((2, 1), np.int64)},
        {"numbers": np.zeros((2, 2), np.float32), "airline": np.zeros((3, 1), np.int64)},
    ],
)
def test_other_tensors_than_the_manifest_says(program: Program, tensors: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match="must be"):
        program(tensors)


def test_the_same_inputs_give_the_same_bundle(good: Bundle, tmp_path: Path) -> None:
    assert linear_bundle(tmp_path / "again").digest == good.digest
    assert linear_bundle(tmp_path / "other", seed=1).digest != good.digest


def test_no_path_of_the_builder_is_in_the_archive(good: Bundle) -> None:
    data = (good.folder / MODEL_FILE).read_bytes()

    assert b".py" not in data
    assert b"data.pkl" not in data


def test_a_version_is_not_replaced_by_accident(good: Bundle) -> None:
    with pytest.raises(BundleError, match="exists"):
        linear_bundle(good.folder)


def test_replacing_leaves_only_the_new_one(tmp_path: Path) -> None:
    for _ in range(2):
        build_bundle(tmp_path / "1", Double(), SPECIFICATION, COLUMNS, "none", replace=True)

    assert [path.name for path in tmp_path.iterdir()] == ["1"]


class WrongWidth(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x], dim=1)


class Unsteady(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class ForOneBatchOnly(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(3, 1)


@pytest.mark.parametrize(
    ("module", "message"),
    [(WrongWidth(), r"gave \(\(3, 2\)"), (Unsteady(), "does not export"), (ForOneBatchOnly(), "does not export")],
)
def test_a_module_that_cannot_be_a_bundle(tmp_path: Path, module: torch.nn.Module, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        build_bundle(tmp_path / "1", module, SPECIFICATION, COLUMNS, "none")

    assert list(tmp_path.iterdir()) == []


def test_dropout_is_off_in_a_bundle(tmp_path: Path) -> None:
    module = torch.nn.Sequential(Double(), torch.nn.Dropout(0.5)).train()

    bundle = build_bundle(tmp_path / "1", module, SPECIFICATION, COLUMNS, "none")

    assert [row.outputs for row in bundle.manifest.golden] == [(2.0,), (4.0,), (6.0,)]


def test_the_baseline_counts_every_row(good: Bundle) -> None:
    table = pq.read_table(good.folder / BASELINE_FILE)
    rows = {row["name"]: row for row in table.to_pylist()}

    assert table.schema.equals(BASELINE)
    assert set(rows) == {"distance", "delay", "airline", "late", "minutes"}
    assert rows["delay"]["nulls"] == 9
    assert sum(rows["delay"]["counts"]) == 51
    assert len(rows["delay"]["counts"]) == len(rows["delay"]["edges"]) - 1
    assert dict(zip(rows["airline"]["values"], rows["airline"]["counts"], strict=True)) == {
        **dict.fromkeys(("AA", "DL", "UA", "XX"), 12)
    }
    assert rows["airline"]["nulls"] == 12
    assert rows["late"]["side"] == "output"


def test_a_constant_and_a_column_of_nulls_have_a_baseline(tmp_path: Path) -> None:
    columns = {"x": [5.0, 5.0, 5.0]}

    bundle = build_bundle(tmp_path / "1", Double(), SPECIFICATION, columns, "none")

    row = pq.read_table(bundle.folder / BASELINE_FILE).to_pylist()[0]
    assert (row["edges"], row["counts"]) == ([5.0], [3])


@pytest.mark.parametrize(
    ("x", "label"),
    [
        *(
            (0.1, "high"),
            (0.10000000149, "high"),
            (np.float32(0.1), "high"),
            (np.float64(np.float32(0.1)), "high"),
        ),
        *((16777217.0, "high"), (1e-46, "low"), (-0.0, "low"), (0.0, "low"), (0.09999999, "low")),
    ],
)
def test_a_value_at_an_edge_falls_on_one_side_however_it_comes(tmp_path: Path, x: float, label: str) -> None:
    bundle = edge_bundle(tmp_path / "1")
    program, transform = load_program(bundle.folder, bundle.manifest), FeatureTransform(bundle.manifest)
    answers = []
    for done in (
        transform.records([{"x": x, "y": x}]),
        transform.columns({"x": np.array([x], np.float64), "y": np.array([x], np.float64)}, 1),
        transform.columns({"x": np.array([x], np.float32), "y": np.array([x], np.float32)}, 1),
    ):
        assert not done.problems
        outputs = calibrate(bundle.manifest.output, program(done.tensors))
        answers.append((AnswerMaker(bundle.manifest.output).answer(outputs[0]).label, outputs.tobytes()))

    assert {name for name, _ in answers} == {label}
    assert len(set(answers)) == 1


def test_a_logarithm_of_nothing_is_not_finite_and_never_golden(tmp_path: Path) -> None:
    bundle = log_bundle(tmp_path / "1")
    program = load_program(bundle.folder, bundle.manifest)
    done = FeatureTransform(bundle.manifest).records([{"x": 1.0}, {"x": 0.0}, {"x": -1.0}])

    outputs = calibrate(bundle.manifest.output, program(done.tensors))

    assert finite_rows(outputs).tolist() == [True, False, False]
    assert all(row.record["x"] > 0 for row in bundle.manifest.golden)  # type: ignore[operator]


def test_a_model_without_finite_outputs_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="0 rows of the data give finite outputs"):
        build_bundle(tmp_path / "1", torch.nn.Sequential(Double()), SPECIFICATION, {"x": [3e38, 3e38]}, "none")
