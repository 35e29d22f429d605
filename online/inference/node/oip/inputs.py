"""From the inputs of a request to the program's tensors, by one of two views of the same bundle.

Tensors: the inputs bear the names of the manifest's tensors, and are the program's own. Records: they bear the
names of the manifest's features, one value a row each, and go through the one transform. Where names fit both, it
is tensors. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from online.inference.node.oip.datatypes import BYTES, NUMBERS, OF_TENSOR
from online.inference.node.oip.errors import Invalid, TooLarge
from online.inference.node.oip.messages import Input
from online.inference.node.oip.tensors import Array, shown
from schemas import wire
from schemas.features import Column, FeatureTransform
from schemas.manifest import CategoryFeature, Feature, Manifest, TextFeature
from schemas.shapes import InputShapes
from schemas.transformed import FeatureProblem, Transformed

_SHOWN_PROBLEMS = 3
_FRAME_HEAD_BYTES = 4096  # more than the head of a frame ever takes
_FLOAT32_BYTES, _INT64_BYTES = 4, 8

Int64Array = npt.NDArray[np.int64]


class Group(NamedTuple):
    """Rows that travel together. `places`: which rows of the request these are, None for all."""

    places: Int64Array | None
    tensors: list[wire.Tensor]


def program_groups(manifest: Manifest, transform: FeatureTransform, inputs: Sequence[Input]) -> list[Group]:
    """The request's rows, one array for each input of the program in the manifest's order. Rows whose text is of
    other padded lengths are in groups of their own, so that none pays for another's.

    Raises:
        Invalid: inputs that neither view knows, or with values that it does not take.
        TooLarge: more than one frame to the worker, or back, can hold.
    """
    named = {given.name: given for given in inputs}
    if len(named) != len(inputs):
        raise Invalid("an input is given twice")
    features = {feature.name: feature for feature in manifest.features}
    if named and named.keys() <= {tensor.name for tensor in manifest.inputs}:
        tensors = _as_tensors(manifest, named)
        _check_size(len(tensors[0]), sum(tensor.nbytes for tensor in tensors), manifest)
        return [Group(None, tensors)]
    if named and named.keys() <= features.keys():
        return _grouped(manifest, _as_records(transform, features, named))
    raise Invalid(_unknown(manifest, list(named)))


def _as_tensors(manifest: Manifest, named: Mapping[str, Input]) -> list[wire.Tensor]:
    if missing := [tensor.name for tensor in manifest.inputs if tensor.name not in named]:
        raise Invalid(f"input {', '.join(missing)} is missing")
    for tensor in manifest.inputs:
        datatype = OF_TENSOR[tensor.dtype]
        if named[tensor.name].datatype != datatype:
            raise Invalid(f"input {tensor.name}: datatype must be {datatype}, not {named[tensor.name].datatype}")
    rows = _check_rows({name: given.shape[0] for name, given in named.items()})
    arrays = [cast(wire.Tensor, named[tensor.name].values) for tensor in manifest.inputs]
    if (problem := InputShapes(manifest).problem(arrays, rows)) is not None:
        raise Invalid(problem)
    for tensor, array in zip(manifest.inputs, arrays, strict=True):
        _check_finite(tensor.name, array)
    return arrays


def _as_records(
    transform: FeatureTransform, features: Mapping[str, Feature], named: Mapping[str, Input]
) -> Transformed:
    missing = [name for name, feature in features.items() if name not in named and feature.missing is None]
    if missing:
        raise Invalid(f"input {', '.join(missing)} is missing: the feature has no default")
    rows = _check_rows({name: _rows_of(given) for name, given in named.items()})
    columns: dict[str, Column] = {
        name: _column(feature, named[name]) if name in named else [None] * rows
        for name, feature in features.items()
    }
    done = transform.columns(columns, rows)
    if done.problems:
        raise Invalid(_told(done.problems))
    return done


def _grouped(manifest: Manifest, done: Transformed) -> list[Group]:
    sent = sum(tensor.nbytes for tensor in done.fixed.values())
    sent += sum(int(done.texts[feature].lengths.sum()) * _INT64_BYTES for _, feature, _ in done.parts)
    _check_size(done.rows, sent, manifest)
    names = [tensor.name for tensor in manifest.inputs]
    groups = done.groups()
    if len(groups) == 1:
        tensors = done.tensors
        return [Group(None, [tensors[name] for name in names])]
    return [Group(places, [done.take(places)[name] for name in names]) for places in groups]


def _rows_of(given: Input) -> int:
    if len(given.shape) > 2 or given.shape[1:] not in ((), (1,)):
        raise Invalid(f"input {given.name}: shape must be [rows] or [rows, 1], not {shown(list(given.shape))}")
    return given.shape[0]


def _column(feature: Feature, given: Input) -> Column:
    values = given.values
    if isinstance(feature, CategoryFeature | TextFeature):
        if not isinstance(values, list):
            raise Invalid(f"input {given.name}: a {feature.type} is of {BYTES}, not {given.datatype}")
        return [_text(given.name, row, value) for row, value in enumerate(values)]
    if isinstance(values, list) or given.datatype not in NUMBERS:
        raise Invalid(f"input {given.name}: a number is of {', '.join(NUMBERS)}, not {given.datatype}")
    _check_finite(given.name, values)
    return values.reshape(-1).astype(np.float64)


def _text(name: str, row: int, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"input {name}: row {row} is not UTF-8") from None


def _check_finite(name: str, array: Array) -> None:
    # The transform takes NaN in an array of floats for null; a caller who means null leaves the feature out.
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise Invalid(f"input {name}: row {row} is not finite")


def _check_rows(rows: Mapping[str, int]) -> int:
    """The one number of rows. Raises Invalid."""
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} has {shown(count)}" for name, count in rows.items())
        raise Invalid(f"inputs differ in rows: {counts}")
    count = next(iter(rows.values()))
    if count == 0:
        raise Invalid("a request without rows")
    return count


def _check_size(rows: int, sent_bytes: int, manifest: Manifest) -> None:
    most = max(sent_bytes, rows * manifest.output.model_width * _FLOAT32_BYTES)
    limit = wire.MAX_FRAME_BYTES - _FRAME_HEAD_BYTES
    if most > limit:
        raise TooLarge(f"{rows} rows take {most} bytes, the limit is {limit}: send fewer in a request")


def _unknown(manifest: Manifest, names: Sequence[str]) -> str:
    tensors = [tensor.name for tensor in manifest.inputs]
    strange = [name for name in names if name not in {*manifest.feature_names, *tensors}]
    of = f"unknown input {shown(strange[0])}" if strange else "inputs of both kinds" if names else "no inputs"
    return f"{of}: give the tensors {', '.join(tensors)}, or the features {', '.join(manifest.feature_names)}"


def _told(problems: Sequence[FeatureProblem]) -> str:
    first = [f"row {problem.row}: {problem.feature}: {problem.reason}" for problem in problems[:_SHOWN_PROBLEMS]]
    more = len(problems) - len(first)
    return "; ".join(first) + (f"; and {more} more" if more else "")
