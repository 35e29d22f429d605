"""Raw records to tensors: the one logic that Spark, the API, training and golden rows share.

Numbers are brought to float32 first, with -0.0 as 0.0, and everything after is float32 arithmetic: a value
that came as a JSON double, a Spark float or from the feature table therefore falls on the same side of an edge.
Runs on CPU, numpy only. What a feature is, is said by the manifest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from schemas.manifest import BucketFeature, CategoryFeature, Feature, InputTensor, Manifest, NumberFeature

Float32Array = npt.NDArray[np.float32]
Tensor = npt.NDArray[np.float32] | npt.NDArray[np.int64]
Column = Sequence[object] | npt.NDArray[np.generic]

_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_SHOWN_VALUES = 12


@dataclass(frozen=True, slots=True)
class FeatureProblem:
    """Why a row cannot be used: which feature, and what would be allowed."""

    row: int
    feature: str
    reason: str


@dataclass(frozen=True, slots=True)
class Transformed:
    """`tensors`: one (n, width) array for each input of the model, by name. Rows with problems hold zeros."""

    tensors: dict[str, Tensor]
    problems: list[FeatureProblem] = field(default_factory=list)

    @property
    def bad_rows(self) -> set[int]:
        return {problem.row for problem in self.problems}


class FeatureTransform:
    """Compiled from a manifest once, then called for any number of batches; holds no other state."""

    def __init__(self, manifest: Manifest) -> None:
        self.feature_names = manifest.feature_names
        by_name = {feature.name: feature for feature in manifest.features}
        self._inputs = [
            (tensor, _Encoder(tensor, [by_name[name] for name in tensor.features])) for tensor in manifest.inputs
        ]

    def records(self, records: Sequence[Mapping[str, object]]) -> Transformed:
        """Transforms n records. Names that are no feature are a problem of their row."""
        problems = [
            FeatureProblem(row, name, f"unknown feature; the model takes {', '.join(self.feature_names)}")
            for row, record in enumerate(records)
            for name in record.keys() - set(self.feature_names)
        ]
        columns = {name: [record.get(name) for record in records] for name in self.feature_names}
        done = self.columns(columns, len(records))
        return Transformed(done.tensors, problems + done.problems)

    def columns(self, columns: Mapping[str, Column], rows: int) -> Transformed:
        """Transforms n rows given as one sequence, or array with NaN for null, a feature."""
        tensors: dict[str, Tensor] = {}
        problems: list[FeatureProblem] = []
        for tensor, encoder in self._inputs:
            tensors[tensor.name] = encoder.encode(columns, rows, problems)
        return Transformed(tensors, problems)


class _Encoder:
    """Fills one input tensor, a column a feature; numbers are scaled for all columns at once."""

    def __init__(self, tensor: InputTensor, features: Sequence[Feature]) -> None:
        self._dtype = np.float32 if tensor.dtype == "float32" else np.int64
        self._features = features
        self._index = {
            feature.name: {value: i + 1 for i, value in enumerate(feature.vocabulary)}
            for feature in features
            if isinstance(feature, CategoryFeature)
        }
        numbers = [feature for feature in features if isinstance(feature, NumberFeature)]
        self._log1p = np.array([feature.log1p for feature in numbers], dtype=bool)
        self._scale = np.array([feature.scale for feature in numbers], dtype=np.float32)
        self._shift = np.array([feature.shift for feature in numbers], dtype=np.float32)

    def encode(self, columns: Mapping[str, Column], rows: int, problems: list[FeatureProblem]) -> Tensor:
        out = np.zeros((rows, len(self._features)), dtype=self._dtype)
        for place, feature in enumerate(self._features):
            column = columns[feature.name]
            if isinstance(feature, CategoryFeature):
                out[:, place] = self._categories(feature, column, problems)
            else:
                numbers = _float32(feature, column, problems)
                if isinstance(feature, BucketFeature):
                    edges = np.array(feature.edges, dtype=np.float32)
                    out[:, place] = np.searchsorted(edges, numbers, side="right")
                else:
                    out[:, place] = numbers
        if self._dtype is np.float32:
            if self._log1p.any():
                # Values under -1 were refused, or are a mistake of the manifest that golden rows show.
                with np.errstate(invalid="ignore", divide="ignore"):
                    np.log1p(out, out=out, where=self._log1p)
            out *= self._scale
            out += self._shift
        return out

    def _categories(
        self, feature: CategoryFeature, column: Column, problems: list[FeatureProblem]
    ) -> npt.NDArray[np.int64]:
        index = self._index[feature.name]
        out = np.zeros(len(column), dtype=np.int64)
        for row, given in enumerate(column):
            value = feature.missing if given is None else given
            if not isinstance(value, str):
                problems.append(FeatureProblem(row, feature.name, _wants_category(feature, given)))
                continue
            place = index.get(value, 0)
            if place == 0 and (feature.closed or not _is_unicode(value)):
                problems.append(FeatureProblem(row, feature.name, _wants_category(feature, given)))
            out[row] = place
        return out


def canonical_number(value: object) -> float | None:
    """The float32 value of a JSON or Spark number as a float, or None where it is none or not finite."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    if not -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:  # also false for NaN, also exact for a huge int
        return None
    return float(np.float32(value)) + 0.0


def _float32(
    feature: NumberFeature | BucketFeature, column: Column, problems: list[FeatureProblem]
) -> Float32Array:
    """(n,) float32: nulls replaced, everything else checked; a row with a problem holds 0."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return _float32_array(feature, column, problems)
    out = np.zeros(len(column), dtype=np.float32)
    for row, given in enumerate(column):
        number = canonical_number(feature.missing if given is None else given)
        if number is None or not _in_range(feature, number):
            problems.append(FeatureProblem(row, feature.name, _wants_number(feature, given)))
        else:
            out[row] = number
    return out


def _float32_array(
    feature: NumberFeature | BucketFeature, column: npt.NDArray[np.generic], problems: list[FeatureProblem]
) -> Float32Array:
    """As `_float32` for a whole column of floats at once, where NaN is null."""
    wide = column.astype(np.float64)
    if feature.missing is not None:
        wide = np.where(np.isnan(wide), feature.missing, wide)
    with np.errstate(over="ignore"):
        out = wide.astype(np.float32) + np.float32(0.0)
    good = np.abs(wide) <= _MAX_FLOAT32
    if isinstance(feature, NumberFeature):
        if feature.minimum is not None:
            good &= out >= np.float32(feature.minimum)
        if feature.maximum is not None:
            good &= out <= np.float32(feature.maximum)
    for row in np.flatnonzero(~good):
        given = None if np.isnan(wide[row]) else float(wide[row])
        problems.append(FeatureProblem(int(row), feature.name, _wants_number(feature, given)))
    out[~good] = 0.0
    return out


def _in_range(feature: NumberFeature | BucketFeature, number: float) -> bool:
    if isinstance(feature, BucketFeature):
        return True
    low, high = feature.minimum, feature.maximum
    return bool((low is None or number >= np.float32(low)) and (high is None or number <= np.float32(high)))


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _wants_number(feature: NumberFeature | BucketFeature, given: object) -> str:
    if given is None:
        return "required, and missing"
    bounds = ""
    if isinstance(feature, NumberFeature):
        low = "" if feature.minimum is None else f" >= {feature.minimum:g}"
        high = "" if feature.maximum is None else f" <= {feature.maximum:g}"
        bounds = " and".join(bound for bound in (low, high) if bound)
    return f"must be a finite number{bounds} that float32 can hold, not {_shown(given)}"


def _wants_category(feature: CategoryFeature, given: object) -> str:
    if given is None:
        return "required, and missing"
    if not feature.closed:
        return f"must be text of valid Unicode, not {_shown(given)}"
    allowed = ", ".join(feature.vocabulary[:_SHOWN_VALUES])
    more = len(feature.vocabulary) - _SHOWN_VALUES
    return f"must be one of {allowed}{f' and {more} more' if more > 0 else ''}, not {_shown(given)}"


def _shown(value: object) -> str:
    return ascii(value)[:80]
