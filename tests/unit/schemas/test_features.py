"""The one transform: edges, missing values, and that every way in gives the same tensor."""

import math
from pathlib import Path

import numpy as np
import pytest

from schemas.features import FeatureTransform, canonical_number
from schemas.manifest import BucketFeature, CategoryFeature, Feature, InputTensor, Manifest, NumberFeature

GOLDEN = Path(__file__).parents[2] / "contracts" / "golden" / "manifest.json"


def manifest_of(*features: Feature) -> Manifest:
    base = Manifest.model_validate_json(GOLDEN.read_bytes())
    numbers = tuple(f.name for f in features if isinstance(f, NumberFeature))
    others = tuple(f.name for f in features if not isinstance(f, NumberFeature))
    inputs = [
        InputTensor(name=name, dtype=dtype, features=names)
        for name, dtype, names in (("numbers", "float32", numbers), ("categories", "int64", others))
        if names
    ]
    document = base.model_dump() | {"features": features, "inputs": inputs, "golden": ()}
    return Manifest.model_validate(document)


def test_a_record_becomes_scaled_numbers_and_indexes() -> None:
    transform = FeatureTransform(Manifest.model_validate_json(GOLDEN.read_bytes()))
    done = transform.records([{"distance": 1400, "hour": 12.0, "carrier": "DL"}, {"hour": 5, "carrier": "UA"}])
    assert not done.problems
    expected = np.log1p(np.array([1400, 1000], np.float32)) * np.float32(1.25) - np.float32(8)
    np.testing.assert_array_equal(done.tensors["numbers"][:, 0], expected)
    np.testing.assert_array_equal(done.tensors["categories"], [[2, 2], [0, 1]])


@pytest.mark.parametrize("value", [0.1, 0.10000000149, np.float32(0.1), np.float64(0.1), float(np.float32(0.1))])
def test_a_value_at_an_edge_falls_on_one_side_whatever_its_precision(value: float) -> None:
    transform = FeatureTransform(manifest_of(BucketFeature(name="x", edges=(0.1,))))
    by_record = transform.records([{"x": value}]).tensors["categories"]
    by_column = transform.columns({"x": np.array([value])}, 1).tensors["categories"]
    assert by_record.tolist() == by_column.tolist() == [[1]]


@pytest.mark.parametrize("value", [0.1, 16777217, 1e-46, 3.4028234e38, -0.0, 0, 1, -5.5])
def test_json_numbers_and_columns_of_either_float_give_the_same_bits(value: float) -> None:
    transform = FeatureTransform(manifest_of(NumberFeature(name="x", scale=0.5, shift=0.25)))
    ways = [
        transform.records([{"x": value}]),
        transform.columns({"x": np.array([value], np.float64)}, 1),
        transform.columns({"x": np.array([value], np.float32)}, 1),
    ]
    assert not any(way.problems for way in ways)
    assert len({way.tensors["numbers"].tobytes() for way in ways}) == 1


def test_negative_zero_is_zero() -> None:
    transform = FeatureTransform(manifest_of(NumberFeature(name="x")))
    for way in (transform.records([{"x": -0.0}]), transform.columns({"x": np.array([-0.0])}, 1)):
        assert math.copysign(1, way.tensors["numbers"][0, 0]) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3.4028236e38, 10**400, "1", "NaN", True, [1]])
def test_what_is_no_finite_number_is_a_problem_of_that_row_alone(value: object) -> None:
    transform = FeatureTransform(manifest_of(NumberFeature(name="x")))
    done = transform.records([{"x": 1.0}, {"x": value}, {"x": 2.0}])
    assert done.bad_rows == {1}
    assert "finite number" in done.problems[0].reason
    assert done.tensors["numbers"][:, 0].tolist() == [1.0, 0.0, 2.0]


def test_columns_report_the_same_problems_as_records() -> None:
    feature = NumberFeature(name="x", minimum=0, maximum=10)
    transform = FeatureTransform(manifest_of(feature))
    values = [5.0, -1.0, 11.0, math.inf]
    by_record = transform.records([{"x": value} for value in values])
    by_column = transform.columns({"x": np.array(values)}, 4)
    assert by_record.bad_rows == by_column.bad_rows == {1, 2, 3}
    assert "finite number >= 0 and <= 10" in by_column.problems[0].reason
    np.testing.assert_array_equal(by_record.tensors["numbers"], by_column.tensors["numbers"])


def test_missing_values_take_their_default_or_are_said_to_be_required() -> None:
    transform = FeatureTransform(
        manifest_of(NumberFeature(name="x", missing=7), CategoryFeature(name="c", vocabulary=("a",)))
    )
    done = transform.records([{"x": None, "c": "a"}, {}])
    assert done.tensors["numbers"][:, 0].tolist() == [7, 7]
    assert [(p.row, p.feature, p.reason) for p in done.problems] == [(1, "c", "required, and missing")]
    assert transform.columns({"x": np.array([np.nan]), "c": ["a"]}, 1).tensors["numbers"][0, 0] == 7


def test_categories_are_compared_as_text_and_closed_ones_name_what_is_allowed() -> None:
    open_one = CategoryFeature(name="c", vocabulary=("7", "07"))
    closed = CategoryFeature(name="d", vocabulary=("a", "b"), closed=True)
    done = FeatureTransform(manifest_of(open_one, closed)).records(
        [{"c": "07", "d": "b"}, {"c": "007", "d": "z"}, {"c": 7, "d": "a"}, {"c": "\udc00", "d": "a"}]
    )
    np.testing.assert_array_equal(done.tensors["categories"][:, 0], [2, 0, 0, 0])
    assert done.bad_rows == {1, 2, 3}
    reasons = {(p.row, p.feature): p.reason for p in done.problems}
    assert reasons[1, "d"] == "must be one of a, b, not 'z'"
    assert reasons[2, "c"] == "must be text of valid Unicode, not 7"
    assert reasons[3, "c"] == "must be text of valid Unicode, not '\\udc00'"


def test_names_that_are_no_feature_are_a_problem() -> None:
    done = FeatureTransform(manifest_of(NumberFeature(name="x"))).records([{"x": 1, "y": 2}])
    assert [(p.feature, p.reason) for p in done.problems] == [("y", "unknown feature; the model takes x")]


def test_a_huge_integer_is_no_float32() -> None:
    assert canonical_number(10**39) is None
    assert canonical_number(-(10**38)) == float(np.float32(-1e38))
