"""Calibration, labels, thresholds and rules."""

import numpy as np
import pytest

from schemas.manifest import ArgmaxLabel, Calibration, Output, OutputSpecification, Rule, ThresholdLabel
from schemas.outputs import AnswerMaker, calibrate, finite_rows

SPECIFICATION = OutputSpecification(
    outputs=(
        Output(name="p", calibration=Calibration(kind="sigmoid", scale=2.0, shift=0.5), decimals=4),
        Output(name="minutes", calibration=Calibration(minimum=0, maximum=100), decimals=1),
    ),
    label=ThresholdLabel(output="p", threshold=0.1, at_or_above="late", below="on_time"),
    rules=(Rule(output="minutes", compare=">=", value=60, label="very_late"),),
    default=(0.2, 5.0),
)


def test_calibration_is_applied_column_by_column() -> None:
    stored = calibrate(SPECIFICATION, np.array([[0.0, 50.0], [-0.25, 250.0]], np.float32))
    np.testing.assert_allclose(stored[:, 0], [1 / (1 + np.exp(-0.5)), 0.5], rtol=1e-6)
    assert stored[:, 1].tolist() == [50.0, 100.0]
    assert stored.dtype == np.float32


def test_a_wrong_number_of_outputs_is_refused() -> None:
    with pytest.raises(ValueError, match="for 2 outputs"):
        calibrate(SPECIFICATION, np.zeros((3, 1), np.float32))


def test_large_logits_saturate_without_a_warning() -> None:
    assert calibrate(SPECIFICATION, np.array([[-1e30, 0], [1e30, 0]], np.float32))[:, 0].tolist() == [0.0, 1.0]


def test_rows_that_are_not_finite_are_named() -> None:
    raw = np.array([[0, np.nan], [np.nan, 0], [0, 0]], np.float32)
    assert finite_rows(calibrate(SPECIFICATION, raw)).tolist() == [False, False, True]


def test_a_threshold_is_compared_in_the_precision_of_what_is_stored() -> None:
    maker = AnswerMaker(SPECIFICATION)
    assert maker.answer(np.array([0.1, 0], np.float32).tolist()).label == "late"
    below = maker.answer(np.array([np.nextafter(np.float32(0.1), np.float32(0)), 0], np.float32).tolist())
    assert below.label == "on_time"
    assert below.confidence == pytest.approx(0.9)


def test_a_rule_overrides_the_label_and_outputs_are_rounded() -> None:
    answer = AnswerMaker(SPECIFICATION).answer(np.array([0.123456, 60.04], np.float32).tolist())
    assert answer.label == "very_late"
    assert answer.outputs == {"p": 0.1235, "minutes": 60.0}


def test_argmax_takes_the_first_of_equals() -> None:
    maker = AnswerMaker(
        OutputSpecification(
            outputs=(Output(name="a"), Output(name="b"), Output(name="c")),
            label=ArgmaxLabel(outputs=("a", "b", "c"), labels=("A", "B", "C")),
        )
    )
    assert maker.answer(np.array([0.25, 0.5, 0.5], np.float32).tolist())[1:] == ("B", 0.5)
    assert maker.default is None
