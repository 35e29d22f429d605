"""Sorting of differences, with outputs of one number, and of a list whose labels may change places."""

from pathlib import Path

import numpy as np
import pytest

from batch_scoring.publishing.differences import Compared, Kind, figures, sort_differences
from schemas.manifest import Manifest, Output, OutputSpecification, Tolerance, TopKOutput

# Absolute 0.01: up to 0.01 is equal, up to 0.1 numeric.
TOLERANCE = Tolerance(absolute=0.01, relative=0.0)
NAN = float("nan")


def manifest(*outputs: Output | TopKOutput) -> Manifest:
    return Manifest.model_construct(output=OutputSpecification(outputs=outputs), tolerance=TOLERANCE)


def compared(
    stored: list[list[float]], run: list[list[float]], table: list[list[float]] | None = None
) -> Compared:
    rows = [np.array(some, np.float32) for some in (stored, run, run if table is None else table)]
    names = [f"e{i}" for i in range(len(stored))]
    return Compared(names, *rows, ["r1"] * len(names), np.zeros(len(names), dtype=bool))


@pytest.mark.parametrize(
    ("stored", "run", "table", "kind"),
    [
        (1.0, 1.0, 1.0, Kind.EQUAL),
        (1.0, 1.009, 1.009, Kind.EQUAL),
        (1.0, 1.05, 1.05, Kind.NUMERIC),
        (1.0, 1.2, 1.2, Kind.WRONG_MODEL),
        (1.0, 1.0, 1.2, Kind.FEATURE_DRIFT),  # live answers will come from other features
        (1.0, 1.2, 1.0, Kind.FEATURE_DRIFT),  # the files are other features than those of the computation
        (1.0, 1.2, 1.3, Kind.WRONG_MODEL),  # neither explains it
        (1.0, 1.05, 1.3, Kind.NUMERIC),
        (1.0, 1.0, NAN, Kind.FEATURE_DRIFT),  # the table's record cannot be used
        (1.0, NAN, NAN, Kind.WRONG_MODEL),
    ],
)
def test_each_kind(stored: float, run: float, table: float, kind: Kind) -> None:
    found = compared([[stored]], [[run]], [[table]])
    assert sort_differences(manifest(Output(name="p")), found).tolist() == [kind]


def test_features_that_are_gone_are_drift() -> None:
    found = compared([[1.0]], [[NAN]])
    gone = Compared(found.entities, found.stored, found.of_run, found.of_table, found.replicas, np.array([True]))
    assert sort_differences(manifest(Output(name="p")), gone).tolist() == [Kind.FEATURE_DRIFT]


@pytest.mark.parametrize(("off", "kind"), [(10, Kind.NUMERIC), (11, Kind.WRONG_MODEL)])
def test_more_than_half_a_little_off_is_no_chance(off: int, kind: Kind) -> None:
    run = [[1.05]] * off + [[1.0]] * (20 - off)
    kinds = sort_differences(manifest(Output(name="p")), compared([[1.0]] * 20, run))
    assert (kinds == kind).sum() == off
    assert (kinds == Kind.EQUAL).sum() == 20 - off


def test_labels_may_change_places_where_their_scores_tie() -> None:
    topics = manifest(TopKOutput(name="t", k=2, size=9))
    # Places and scores: tied labels in the other order; another label by far; the same labels, a score off.
    stored = [[3, 0.5, 4, 0.495], [3, 0.5, 4, 0.2], [3, 0.5, 4, 0.2]]
    run = [[4, 0.5, 3, 0.5], [3, 0.5, 8, 0.7], [3, 0.45, 4, 0.2]]
    found = compared(stored, run)
    assert sort_differences(topics, found).tolist() == [Kind.EQUAL, Kind.WRONG_MODEL, Kind.NUMERIC]
    report = figures(topics, found)
    assert (report["compared"], report["equal"], report["numeric"], report["wrong_model"]) == (3, 1, 1, 1)
    # Of scores alone: the distance of two labels' numbers means nothing.
    assert report["max_abs_diff"] == pytest.approx(0.5, abs=1e-6)
    assert report["max_relative_diff"] == pytest.approx(2.5, abs=1e-5)


def test_the_worst_come_first_by_their_worst_output() -> None:
    both = manifest(Output(name="p"), Output(name="q"))
    found = compared([[0.0, 0.0]] * 5, [[0.05, 0.0], [0.0, 0.5], [2.0, 3.0], [0.0, 0.0], [1.0, 0.0]])
    report = figures(both, found)
    assert report["identical"] == 1
    worst = report["worst"]
    assert isinstance(worst, list)
    assert [(one["kind"], one["entity"], one["output"], one["live"]) for one in worst] == [
        ("wrong_model", "e2", "q", 3.0),
        ("wrong_model", "e4", "p", 1.0),
        ("wrong_model", "e1", "q", 0.5),
        ("numeric", "e0", "p", pytest.approx(0.05)),
    ]


def test_of_nothing_there_is_nothing_to_tell(tmp_path: Path) -> None:
    empty = Compared([], *[np.empty((0, 1), np.float32)] * 3, [], np.zeros(0, dtype=bool))
    report = figures(manifest(Output(name="p")), empty)
    assert (report["compared"], report["max_abs_diff"], report["worst"]) == (0, None, [])
