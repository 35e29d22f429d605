"""Raw records to tensors: the one logic that Spark, the API, training and golden rows share.

Numbers are brought to float32 first, with -0.0 as 0.0, and everything after is float32 arithmetic: a value
that came as a JSON double, a Spark float or from the feature table therefore falls on the same side of an edge.
Runs on CPU. What a feature is, is said by the manifest; text goes through `text.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from schemas.manifest import (
    BucketFeature,
    CategoryFeature,
    InputTensor,
    Manifest,
    NumberFeature,
    TextFeature,
)
from schemas.names import is_unicode
from schemas.text import TextEncoder, TextProblem, TokenizerError, Tokens, text_encoders
from schemas.transformed import FeatureProblem as FeatureProblem
from schemas.transformed import Tensor as Tensor
from schemas.transformed import Transformed as Transformed

Float32Array = npt.NDArray[np.float32]
Encoded = list[int] | list[float] | npt.NDArray[np.generic]
Column = Sequence[object] | npt.NDArray[np.generic]

_Valued = NumberFeature | BucketFeature | CategoryFeature

_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_SHOWN_VALUES = 12


class FeatureTransform:
    """Compiled from a manifest once, then called for any number of batches; holds no other state.

    Args:
        tokenizer: the bytes of `tokenizer.json`, where a feature is text.

    Raises:
        TokenizerError: there is none where one is needed, or it may not be used.
    """

    def __init__(self, manifest: Manifest, tokenizer: bytes | None = None) -> None:
        self.feature_names = manifest.feature_names
        self._known = frozenset(self.feature_names)
        by_name = {feature.name: feature for feature in manifest.features if not isinstance(feature, TextFeature)}
        self._inputs = [
            (tensor, _Encoder(tensor, [by_name[name] for name in tensor.features]))
            for tensor in manifest.inputs
            if tensor.part is None
        ]
        self._parts = [
            (item.name, item.features[0], item.part) for item in manifest.inputs if item.part is not None
        ]
        self._texts = manifest.text_features
        self.has_text = bool(self._texts)
        self._encoders: Mapping[str, TextEncoder] = {}
        if self._texts:
            if tokenizer is None:
                raise TokenizerError(
                    f"the features {', '.join(self._texts)} are text, and there is no tokenizer.json"
                )
            self._encoders = text_encoders(self._texts.values(), tokenizer)

    def records(self, records: Sequence[Mapping[str, object]]) -> Transformed:
        """Transforms n records. Names that are no feature are a problem of their row."""
        problems = [
            FeatureProblem(row, name, f"unknown feature; the model takes {', '.join(self.feature_names)}")
            for row, record in enumerate(records)
            if not record.keys() <= self._known
            for name in record.keys() - self._known
        ]
        columns = {name: [record.get(name) for record in records] for name in self.feature_names}
        return self._transformed(columns, len(records), problems)

    def columns(self, columns: Mapping[str, Column], rows: int) -> Transformed:
        """Transforms n rows given as one sequence, or array with NaN for null, a feature."""
        return self._transformed(columns, rows, [])

    def _transformed(
        self, columns: Mapping[str, Column], rows: int, problems: list[FeatureProblem]
    ) -> Transformed:
        fixed: dict[str, Tensor] = {}
        for tensor, encoder in self._inputs:
            fixed[tensor.name] = encoder.encode(columns, rows, problems)
        texts = {
            name: _texts(self._texts[name], encoder, columns[name], problems)
            for name, encoder in self._encoders.items()
        }
        return Transformed(rows, fixed, problems, texts, self._parts)


def _texts(feature: TextFeature, encoder: TextEncoder, column: Column, problems: list[FeatureProblem]) -> Tokens:
    ids: list[list[int]] = []
    for row, given in enumerate(column):
        value = feature.missing if given is None else given
        ids.append([])
        if not isinstance(value, str) or not is_unicode(value):
            reason = "required, and missing" if given is None else _wants_unicode(given)
            problems.append(FeatureProblem(row, feature.name, reason))
            continue
        try:
            ids[row] = encoder.encode(value)
        except TextProblem as error:
            problems.append(FeatureProblem(row, feature.name, str(error)))
    return encoder.gather(ids)


class _Encoder:
    """Fills one input tensor, a column a feature; numbers are scaled for all columns at once."""

    def __init__(self, tensor: InputTensor, features: Sequence[_Valued]) -> None:
        self._dtype = np.float32 if tensor.dtype == "float32" else np.int64
        # Chosen once: asking a model of the manifest for its class costs more than encoding a value.
        self._columns: list[tuple[str, Callable[[Column, list[FeatureProblem]], Encoded]]] = [
            (feature.name, partial(self._column_of(feature), feature)) for feature in features
        ]
        self._index = {
            feature.name: {value: i + 1 for i, value in enumerate(feature.vocabulary)}
            for feature in features
            if isinstance(feature, CategoryFeature)
        }
        numbers = [feature for feature in features if isinstance(feature, NumberFeature)]
        self._bounds = {
            feature.name: _bounds(feature) for feature in features if not isinstance(feature, CategoryFeature)
        }
        self._edges = {
            feature.name: np.array(feature.edges, dtype=np.float32)
            for feature in features
            if isinstance(feature, BucketFeature)
        }
        self._log1p = np.array([feature.log1p for feature in numbers], dtype=bool)
        self._has_log1p = bool(self._log1p.any())
        self._scale = np.array([feature.scale for feature in numbers], dtype=np.float32)
        self._has_scale = bool((self._scale != 1).any())
        self._shift = np.array([feature.shift + 0.0 for feature in numbers], dtype=np.float32)

    def encode(self, columns: Mapping[str, Column], rows: int, problems: list[FeatureProblem]) -> Tensor:
        """(rows, width). Columns of records are lists, which become an array all at once: one row has many."""
        encoded = [encode(columns[name], problems) for name, encode in self._columns]
        if rows > 1 and any(isinstance(column, np.ndarray) for column in encoded):
            out = np.empty((rows, len(encoded)), dtype=self._dtype)
            for place, column in enumerate(encoded):
                out[:, place] = column
        elif rows == 1:
            out = np.array([[column[0] for column in encoded]], dtype=self._dtype)
        else:
            out = np.array(encoded, dtype=self._dtype).reshape(len(encoded), rows).T.copy()
        if self._dtype is np.float32:
            if self._has_log1p:
                # Values under -1 were refused, or are a mistake of the manifest that golden rows show.
                with np.errstate(invalid="ignore", divide="ignore"):
                    np.log1p(out, out=out, where=self._log1p)
            if self._has_scale:
                out *= self._scale
            out += self._shift  # which also makes -0.0, and what rounds to it, 0.0
        return out

    def _column_of(self, feature: _Valued) -> Callable[..., Encoded]:
        """What makes a value a row of it, as float32 holds it or is about to."""
        if isinstance(feature, CategoryFeature):
            return self._categories
        return self._buckets if isinstance(feature, BucketFeature) else self._numbers

    def _buckets(self, feature: BucketFeature, column: Column, problems: list[FeatureProblem]) -> Encoded:
        numbers = np.asarray(self._numbers(feature, column, problems), dtype=np.float32)
        return np.searchsorted(self._edges[feature.name], numbers, side="right")

    def _numbers(
        self, feature: NumberFeature | BucketFeature, column: Column, problems: list[FeatureProblem]
    ) -> Encoded:
        if isinstance(column, np.ndarray) and column.dtype.kind == "f":
            return _float32_array(feature, column, problems)
        return _numbers(feature, self._bounds[feature.name], column, problems)

    def _categories(self, feature: CategoryFeature, column: Column, problems: list[FeatureProblem]) -> list[int]:
        index = self._index[feature.name]
        out = [0] * len(column)
        for row, given in enumerate(column):
            value = feature.missing if given is None else given
            if not isinstance(value, str):
                problems.append(FeatureProblem(row, feature.name, _wants_category(feature, given)))
                continue
            place = index.get(value, 0)
            if place == 0 and (feature.closed or not is_unicode(value)):
                problems.append(FeatureProblem(row, feature.name, _wants_category(feature, given)))
            out[row] = place
        return out


def _bounds(feature: NumberFeature | BucketFeature) -> tuple[float, float]:
    """What lies between them is in range after rounding to float32 too."""
    low, high = -_MAX_FLOAT32, _MAX_FLOAT32
    if isinstance(feature, NumberFeature):
        low = low if feature.minimum is None else float(np.float32(feature.minimum))
        high = high if feature.maximum is None else float(np.float32(feature.maximum))
    return low, high


def canonical_number(value: object) -> float | None:
    """The float32 value of a JSON or Spark number as a float, or None where it is none or not finite."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    if not -_MAX_FLOAT32 <= value <= _MAX_FLOAT32:  # also false for NaN, also exact for a huge int
        return None
    return float(np.float32(value)) + 0.0


def _numbers(
    feature: NumberFeature | BucketFeature,
    bounds: tuple[float, float],
    column: Column,
    problems: list[FeatureProblem],
) -> list[float]:
    """n numbers that float32 can hold: nulls replaced, everything else checked; a row with a problem holds 0."""
    low, high = bounds
    out = [0.0] * len(column)
    for row, given in enumerate(column):
        value = feature.missing if given is None else given
        # Nearly all: a plain number within the bounds stays there when it is rounded.
        if (type(value) is float or type(value) is int) and low <= value <= high:
            out[row] = value + 0.0
            continue
        number = canonical_number(value)
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
        return _wants_unicode(given)
    allowed = ", ".join(feature.vocabulary[:_SHOWN_VALUES])
    more = len(feature.vocabulary) - _SHOWN_VALUES
    return f"must be one of {allowed}{f' and {more} more' if more > 0 else ''}, not {_shown(given)}"


def _wants_unicode(given: object) -> str:
    return f"must be text of valid Unicode, not {_shown(given)}"


def _shown(value: object) -> str:
    return ascii(value)[:80]
