"""Raw outputs to answers: calibration and top-k before storing; labels, thresholds and rules when answering.

The one implementation for precomputed and live results. numpy only; the specification is in `output_kinds.py`,
and so are N, columns of the model's result, and W, numbers stored for a row.
"""

import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.manifest import Tolerance
from schemas.output_kinds import ArgmaxLabel, Calibration, Output, OutputSpecification, ThresholdLabel, TopKOutput

Float32Array = npt.NDArray[np.float32]
# A number, a vector's numbers, or a top-k's pairs of label and score.
OutputValue = float | list[float] | list[dict[str, str | float]]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
}
_LOW_BITS = np.uint64(0xFFFFFFFF)


class Answer(NamedTuple):
    """What a caller is told. `confidence` is None where the specification defines no label."""

    outputs: dict[str, OutputValue]
    label: str | None
    confidence: float | None


def calibrate(specification: OutputSpecification, raw: Float32Array) -> Float32Array:
    """(n, N) model outputs to (n, W) float32 as they are stored: calibrated, and of a top-k output the k best.

    A row of whose N outputs one is not finite has a stored one that is not.

    Raises:
        ValueError: another number of columns than the specification names.
    """
    columns = calibrate_columns(specification, raw)
    if specification.model_width == specification.stored_width and not specification.has_top_k:
        return columns
    out = np.empty((len(columns), specification.stored_width), dtype=np.float32)
    for output, place, stored in specification.spans:
        part = columns[:, place]
        out[:, stored] = top_k(part, output.k) if isinstance(output, TopKOutput) else part
    return out


def calibrate_columns(specification: OutputSpecification, raw: Float32Array) -> Float32Array:
    """(n, N) model outputs to (n, N) float32, each calibrated; nothing is left out yet.

    Raises:
        ValueError: another number of columns than the specification names.
    """
    if raw.ndim != 2 or raw.shape[1] != specification.model_width:
        raise ValueError(f"the model gave shape {raw.shape} for {specification.model_width} outputs")
    out = np.array(raw, dtype=np.float32)
    # Overflow gives inf, which `finite_rows` reports for that row alone.
    with np.errstate(over="ignore", invalid="ignore"):
        for output, place, _ in specification.spans:
            out[:, place] = _calibrated(output.calibration, out[:, place])
    return out


def _calibrated(rule: Calibration, columns: Float32Array) -> Float32Array:
    columns = columns * np.float32(rule.scale) + np.float32(rule.shift)
    if rule.kind == "sigmoid":
        columns = np.float32(1) / (np.float32(1) + np.exp(-columns))
    if rule.minimum is not None or rule.maximum is not None:
        columns = np.clip(columns, rule.minimum, rule.maximum)
    return columns


def top_k(scores: Float32Array, k: int) -> Float32Array:
    """(n, N) scores to (n, 2 k): k pairs of place and score, best first, of equal scores the lower place first.

    NaN throughout a row of whose scores one is not finite. 1 <= k <= N.
    """
    scores = np.ascontiguousarray(scores + np.float32(0))  # -0.0 becomes 0.0, which it is equal to
    bits = scores.view(np.uint32)
    # As unsigned numbers these are in the order of the floats; with the place below, no two keys are equal.
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
    keys = (ordered << np.uint64(32)) | (_LOW_BITS - np.arange(scores.shape[1], dtype=np.uint64))
    best = np.partition(keys, -k, axis=1)[:, -k:]
    best.sort(axis=1)
    places = (_LOW_BITS - (best[:, ::-1] & _LOW_BITS)).astype(np.int64)
    pairs = np.empty((len(scores), 2 * k), dtype=np.float32)
    pairs[:, ::2] = places
    pairs[:, 1::2] = np.take_along_axis(scores, places, axis=1)
    pairs[~finite_rows(scores)] = np.nan
    return pairs


def finite_rows(outputs: Float32Array) -> npt.NDArray[np.bool_]:
    """(n,) whether all outputs of the row are finite; the others are never stored or answered."""
    return np.asarray(np.isfinite(outputs).all(axis=1))


def misfits(
    specification: OutputSpecification, tolerance: Tolerance, found: Float32Array, expected: Float32Array
) -> npt.NDArray[np.bool_]:
    """(n, W) which stored outputs are not what is expected: out of tolerance, or NaN.

    Labels of a top-k must be the same rank by rank, except where those that changed places tie: the scores of each
    differ by no more than the tolerance. A label that is among the k of one side only is taken to have the other's
    last score.
    """
    allowed = tolerance.absolute + tolerance.relative * np.abs(expected)
    bad = np.asarray(~(np.abs(found - expected) <= allowed))
    for output, _, stored in specification.spans:
        if isinstance(output, TopKOutput):
            a, b = found[:, stored], expected[:, stored]
            close = allowed[:, stored][:, 1::2]
            is_tied = _is_tied(a, b, close) & _is_tied(b, a, close)
            bad[:, stored][:, ::2] = ~((a[:, ::2] == b[:, ::2]) | is_tied)
    return bad


def _is_tied(mine: Float32Array, others: Float32Array, allowed: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """(n, k) whether each of my labels has with the others the same score, within what is allowed."""
    same = mine[:, ::2, None] == others[:, None, ::2]
    scores = np.take_along_axis(others[:, 1::2], same.argmax(axis=2), axis=1)
    theirs = np.where(same.any(axis=2), scores, others[:, -1:])
    return np.asarray(np.abs(mine[:, 1::2] - theirs) <= allowed)


class AnswerMaker:
    """Compiled from an output specification once; pure.

    Attributes:
        default: (W,) the degraded answer's stored outputs.
        has_places: whether some stored outputs stand for labels, which `are_places` checks.
    """

    def __init__(self, specification: OutputSpecification) -> None:
        spans = specification.spans
        place_of = {output.name: stored.start for output, _, stored in spans if isinstance(output, Output)}
        self._label_rule = specification.label
        # In float32, as stored: 0.1 of a manifest then equals 0.1 of a model.
        self._rules = [
            (_COMPARE[rule.compare], place_of[rule.output], float(np.float32(rule.value)), rule.label)
            for rule in specification.rules
        ]
        self._threshold = (
            float(np.float32(specification.label.threshold))
            if isinstance(specification.label, ThresholdLabel)
            else 0.0
        )
        self._numbers = [
            (output.name, stored.start, output.decimals)
            for output, _, stored in spans
            if isinstance(output, Output)
        ]
        self._lists: list[tuple[str, slice, Callable[[Sequence[float]], OutputValue]]] = [
            (output.name, stored, _Best(output) if isinstance(output, TopKOutput) else _Rounded(output.decimals))
            for output, _, stored in spans
            if not isinstance(output, Output)
        ]
        self._place = place_of
        self._places = [
            (slice(stored.start, stored.stop, 2), output.columns)
            for output, _, stored in spans
            if isinstance(output, TopKOutput)
        ]
        self.has_places = bool(self._places)
        self.default: Sequence[float] | None = (
            None if specification.default is None else np.array(specification.default, dtype=np.float32).tolist()
        )

    def are_places(self, outputs: Sequence[float]) -> bool:
        """Whether what stands for labels in (W,) stored outputs does: a damaged value could name any."""
        for stored, labels in self._places:
            if not all(0 <= place < labels and place.is_integer() for place in outputs[stored]):
                return False
        return True

    def answer(self, values: Sequence[float]) -> Answer:
        """The answer to (W,) stored outputs, all finite."""
        named: dict[str, OutputValue] = {}
        for name, place, decimals in self._numbers:
            named[name] = round(values[place], decimals)
        for name, stored, listed in self._lists:
            named[name] = listed(values[stored])
        label, confidence = self._label(values)
        for compare, place, value, said in self._rules:
            if compare(values[place], value):
                label = said
        return Answer(named, label, confidence)

    def _label(self, values: Sequence[float]) -> tuple[str | None, float | None]:
        label = self._label_rule
        if isinstance(label, ThresholdLabel):
            value = values[self._place[label.output]]
            if value >= self._threshold:
                return label.at_or_above, round(value, 6)
            return label.below, round(1.0 - value, 6)
        if isinstance(label, ArgmaxLabel):
            chosen = [values[self._place[name]] for name in label.outputs]
            best = max(range(len(chosen)), key=chosen.__getitem__)
            return label.labels[best], round(chosen[best], 6)
        return None, None


class _Rounded:
    """(size,) numbers, rounded."""

    def __init__(self, decimals: int) -> None:
        self._decimals = decimals

    def __call__(self, values: Sequence[float]) -> OutputValue:
        # Hundreds at once take numpy a tenth of the time.
        rounded: list[float] = np.round(np.array(values), self._decimals).tolist()
        return rounded


class _Best:
    """(2 k,) pairs of place and score to labels and rounded scores."""

    def __init__(self, output: TopKOutput) -> None:
        self._label, self._decimals = output.label, output.decimals

    def __call__(self, values: Sequence[float]) -> OutputValue:
        best: list[dict[str, str | float]] = [
            {"label": self._label(int(place)), "score": round(score, self._decimals)}
            for place, score in zip(values[::2], values[1::2], strict=True)
        ]
        return best
