"""Raw outputs to answers: calibration before storing; labels, thresholds and rules when answering.

The one implementation for precomputed and live results. numpy only; the specification is in `manifest.py`.
"""

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.manifest import ArgmaxLabel, OutputSpecification, ThresholdLabel

Float32Array = npt.NDArray[np.float32]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
}


class Answer(NamedTuple):
    """What a caller is told. `confidence` is None where the specification defines no label."""

    outputs: dict[str, float]
    label: str | None
    confidence: float | None


def calibrate(specification: OutputSpecification, raw: Float32Array) -> Float32Array:
    """(n, K) model outputs to (n, K) float32 as they are stored.

    Raises:
        ValueError: another number of columns than the specification names.
    """
    if raw.ndim != 2 or raw.shape[1] != len(specification.outputs):
        raise ValueError(f"the model gave shape {raw.shape} for {len(specification.outputs)} outputs")
    out = np.array(raw, dtype=np.float32)
    # Overflow gives inf, which `finite_rows` reports for that row alone.
    with np.errstate(over="ignore", invalid="ignore"):
        for place, output in enumerate(specification.outputs):
            rule = output.calibration
            column = out[:, place] * np.float32(rule.scale) + np.float32(rule.shift)
            if rule.kind == "sigmoid":
                column = np.float32(1) / (np.float32(1) + np.exp(-column))
            if rule.minimum is not None or rule.maximum is not None:
                column = np.clip(column, rule.minimum, rule.maximum)
            out[:, place] = column
    return out


def finite_rows(outputs: Float32Array) -> npt.NDArray[np.bool_]:
    """(n,) whether all outputs of the row are finite; the others are never stored or answered."""
    return np.asarray(np.isfinite(outputs).all(axis=1))


class AnswerMaker:
    """Compiled from an output specification once; pure."""

    def __init__(self, specification: OutputSpecification) -> None:
        place_of = {output.name: place for place, output in enumerate(specification.outputs)}
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
        self._columns = [(output.name, output.decimals) for output in specification.outputs]
        self._place = place_of
        self.default: Float32Array | None = (
            None if specification.default is None else np.array(specification.default, dtype=np.float32)
        )

    def answer(self, outputs: Float32Array) -> Answer:
        """The answer to (K,) stored outputs, all finite."""
        values: list[float] = outputs.tolist()
        named = {name: round(values[i], decimals) for i, (name, decimals) in enumerate(self._columns)}
        label, confidence = self._label(values)
        for compare, place, value, said in self._rules:
            if compare(values[place], value):
                label = said
        return Answer(named, label, confidence)

    def _label(self, values: list[float]) -> tuple[str | None, float | None]:
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
