"""Top-k and vectors: what is stored of many columns, how it is answered, and when two rows are the same."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.manifest import (
    ArgmaxLabel,
    Calibration,
    Output,
    OutputSpecification,
    ThresholdLabel,
    Tolerance,
    TopKOutput,
    VectorOutput,
)
from schemas.outputs import AnswerMaker, calibrate, calibrate_columns, finite_rows, misfits, top_k

TOPICS = TopKOutput(name="topics", k=2, labels=("art", "law", "sea", "war"), decimals=3)
MIXED = OutputSpecification(
    outputs=(
        VectorOutput(name="embedding", size=3, calibration=Calibration(scale=2.0), decimals=2),
        Output(name="late"),
        TOPICS,
    ),
    label=ThresholdLabel(output="late", threshold=0.5, at_or_above="late", below="on time"),
)
# Few values, so that ties are common; both zeros; and numbers next to each other.
SCORES = st.one_of(
    st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, float(np.nextafter(np.float32(1), np.float32(2))), 3.4e38]),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@st.composite
def rows_and_k(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 40)))
    return draw(arrays.arrays(np.float32, shape, elements=SCORES)), draw(st.integers(1, shape[1]))


def reference(scores: np.ndarray, k: int) -> list[list[float]]:
    """By sorting (-score, place): Python's own order of tuples, by which -0.0 and 0.0 are equal."""
    best = [sorted(enumerate(row.tolist()), key=lambda pair: (-pair[1], pair[0]))[:k] for row in scores]
    return [[number for pair in row for number in pair] for row in best]


@given(rows_and_k())
def test_the_k_best_are_those_of_a_full_sort(given_: tuple[np.ndarray, int]) -> None:
    scores, k = given_
    assert top_k(scores, k).tolist() == reference(scores, k)


@given(rows_and_k(), st.randoms(use_true_random=False))
def test_another_order_of_rows_or_labels_changes_no_score(given_: tuple[np.ndarray, int], chance: object) -> None:
    scores, k = given_
    labels = list(range(scores.shape[1]))
    chance.shuffle(labels)  # type: ignore[attr-defined]
    found, moved = top_k(scores, k), top_k(scores[:, labels], k)
    np.testing.assert_array_equal(found[:, 1::2], moved[:, 1::2])
    for row, pairs in enumerate(moved):
        for place, score in zip(pairs[::2], pairs[1::2], strict=True):
            assert scores[row, labels[int(place)]] == score
    np.testing.assert_array_equal(top_k(scores[::-1], k), found[::-1])


def test_a_score_that_is_not_finite_takes_its_row_whatever_its_rank() -> None:
    raw = np.zeros((4, 8), np.float32)
    raw[0, 7], raw[1, 7], raw[2, 7] = np.nan, -np.inf, np.inf
    stored = calibrate(MIXED, raw)
    assert finite_rows(stored).tolist() == [False, False, False, True]
    assert stored.shape == (4, 8 - 4 + 2 * 2)


def test_many_labels_keep_their_places_exactly() -> None:
    scores = np.zeros((1, 1 << 17), np.float32)
    scores[0, [131_071, 99_999]] = 2.0, 1.0
    assert top_k(scores, 3).tolist() == [[131_071, 2.0, 99_999, 1.0, 0, 0.0]]


def test_columns_become_what_is_stored_and_that_the_answer() -> None:
    raw = np.array([[0.1, 0.25, -3.0, 0.75, 0.2, 0.9, 0.1, 0.9]], np.float32)
    assert (MIXED.model_width, MIXED.stored_width) == (8, 8)
    (stored,) = calibrate(MIXED, raw)
    assert stored.tolist() == np.array([0.2, 0.5, -6.0, 0.75, 1, 0.9, 3, 0.9], np.float32).tolist()
    np.testing.assert_allclose(calibrate_columns(MIXED, raw), raw * [2, 2, 2, 1, 1, 1, 1, 1])
    answer = AnswerMaker(MIXED).answer(stored.tolist())
    assert answer.label == "late"
    assert answer.outputs == {
        "embedding": [0.2, 0.5, -6.0],
        "late": 0.75,
        "topics": [{"label": "law", "score": 0.9}, {"label": "war", "score": 0.9}],
    }
    assert MIXED.stored_names[2:6] == ("embedding[2]", "late", "topics[0].label", "topics[0].score")


def test_of_all_labels_kept_only_the_order_is_new() -> None:
    """Where as many numbers are stored as the model gives, they still are not the same ones."""
    specification = OutputSpecification(outputs=(Output(name="a"), TopKOutput(name="t", k=1, size=2)))
    assert calibrate(specification, np.array([[5.0, 0.25, 0.5]], np.float32)).tolist() == [[5.0, 1.0, 0.5]]


def test_labels_without_names_are_their_places() -> None:
    maker = AnswerMaker(OutputSpecification(outputs=(TopKOutput(name="t", k=1, size=40_000),)))
    assert maker.answer(np.array([39_999, 0.5], np.float32).tolist()).outputs == {
        "t": [{"label": "39999", "score": 0.5}]
    }


@pytest.mark.parametrize(("place", "is_one"), [(0, True), (3, True), (4, False), (-1, False), (0.5, False)])
def test_a_damaged_value_may_name_no_label(place: float, is_one: bool) -> None:
    maker = AnswerMaker(OutputSpecification(outputs=(TOPICS,)))
    assert maker.has_places
    assert maker.are_places(np.array([1, 0.5, place, 0.25], np.float32)) is is_one
    assert not AnswerMaker(OutputSpecification(outputs=(Output(name="a"),))).has_places


def _misfits(found: list[float], expected: list[float], absolute: float = 0.01) -> list[int]:
    rows = (np.array([row], np.float32) for row in (found, expected))
    bad = misfits(OutputSpecification(outputs=(TOPICS,)), Tolerance(absolute=absolute, relative=0), *rows)
    return [int(column) for _, column in np.argwhere(bad)]


@pytest.mark.parametrize(
    ("found", "expected", "columns"),
    [
        ([1, 0.5, 2, 0.25], [1, 0.5, 2, 0.25], []),
        ([1, 0.5, 2, 0.25], [1, 0.505, 2, 0.25], []),
        ([1, 0.5, 2, 0.25], [1, 0.52, 2, 0.25], [1]),
        ([1, 0.5, 2, 0.495], [2, 0.5, 1, 0.495], []),  # a tie
        ([1, 0.5, 2, 0.4], [2, 0.5, 1, 0.4], [0, 2]),  # none
        ([1, 0.5, 2, 0.25], [1, 0.5, 3, 0.255], []),  # a tie at the edge: the third is not stored
        ([1, 0.5, 2, 0.4], [3, 0.5, 2, 0.4], [0]),  # label 3 would have been best
        ([1, np.nan, 2, 0.25], [1, 0.5, 2, 0.25], [1]),
    ],
)
def test_labels_must_be_the_same_unless_their_scores_tie(
    found: list[float], expected: list[float], columns: list[int]
) -> None:
    assert _misfits(found, expected) == columns
    assert _misfits(expected, found) == columns


def test_numbers_and_vectors_are_compared_one_by_one() -> None:
    raw = np.array([[0.1, 0.25, -3.0, 0.75, 0.2, 0.9, 0.1, 0.9]], np.float32)
    stored = calibrate(MIXED, raw)
    other = stored + np.array([[0, 0.1, 0, 0.1, 0, 0, 0, 0]], np.float32)
    assert np.argwhere(misfits(MIXED, Tolerance(), other, stored)).tolist() == [[0, 1], [0, 3]]


@pytest.mark.parametrize(
    ("outputs", "more", "message"),
    [
        ([{"kind": "top_k", "name": "t", "k": 1}], {}, "needs labels, or their number as size"),
        ([{"kind": "top_k", "name": "t", "k": 1, "labels": ["a"], "size": 1}], {}, "and not both"),
        ([{"kind": "top_k", "name": "t", "k": 3, "size": 2}], {}, "top_k of 2 labels cannot keep 3"),
        ([{"kind": "top_k", "name": "t", "k": 1, "labels": ["a", "a"]}], {}, "names a label twice"),
        ([{"kind": "top_k", "name": "t", "k": 1, "size": (1 << 24) + 1}], {}, "less than or equal to 16777216"),
        ([{"kind": "vector", "name": "v"}], {}, "size"),
        ([{"kind": "vector", "name": "v", "size": 0}], {}, "greater than or equal to 1"),
        ([{"kind": "vector", "name": "v", "size": 16_384}, {"name": "a"}], {}, "16385 numbers to be stored"),
        ([{"kind": "matrix", "name": "v", "size": 2}], {}, "matrix"),
        ([{"name": "v", "size": 2}], {}, "Extra inputs are not permitted"),
        ([{"kind": "vector", "name": "v", "size": 2}], {"default": [0.5]}, "default has 1 values for 2 outputs"),
        ([{"kind": "top_k", "name": "t", "k": 1, "size": 2}], {"default": [2, 0.5]}, "a place that t does not"),
        ([{"kind": "top_k", "name": "t", "k": 1, "size": 2}], {"default": [0.5, 0.5]}, "a place that t does not"),
        (
            [{"kind": "vector", "name": "v", "size": 2}],
            {"label": {"kind": "argmax", "outputs": ["v"], "labels": ["a"]}},
            "no single number: .'v'",
        ),
        (
            [{"kind": "top_k", "name": "t", "k": 1, "size": 2}],
            {"rules": [{"output": "t", "compare": "<", "value": 1, "label": "a"}]},
            "no single number: .'t'",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_words(outputs: object, more: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OutputSpecification.model_validate({"outputs": outputs, **more})


def test_a_list_beside_named_probabilities_leaves_their_label_alone() -> None:
    specification = OutputSpecification(
        outputs=(VectorOutput(name="v", size=2), Output(name="a"), Output(name="b")),
        label=ArgmaxLabel(outputs=("a", "b"), labels=("A", "B")),
    )
    assert AnswerMaker(specification).answer(np.array([9, 9, 0.25, 0.75], np.float32).tolist())[1:] == ("B", 0.75)
