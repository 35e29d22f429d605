"""Columns of a log to one Arrow batch. A bad value costs itself, never its column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from online.api.requestlog.columns import Coded, Numbers, Same, Texts
from schemas.arrow import REQUEST_LOG


def to_batch(columns: Sequence[Sequence[object]], schema: pa.Schema = REQUEST_LOG) -> tuple[pa.RecordBatch, int]:
    """The batch, and how many values had to be left out of it."""
    bad = 0
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        array, lost = _array(field, values)
        arrays.append(array)
        bad += lost
    return pa.RecordBatch.from_arrays(arrays, schema=schema), bad


def warm_up() -> None:
    """Makes the first array, with which Arrow loads pandas, where it is installed: for a third of a second."""
    to_batch([()] * len(REQUEST_LOG))


def _array(field: Any, values: Sequence[object]) -> tuple[Any, int]:
    try:
        return _whole(field.type, values), 0
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        given = [*values]
        kept = [_usable(field, value) for value in given]
        lost = sum(a is not b for a, b in zip(kept, given, strict=True))
        return pa.array(kept, field.type), lost


def _whole(of: Any, values: Sequence[object]) -> Any:
    """Raises what Arrow does for values that it does not take."""
    match values:
        case Same(value=None):
            return pa.nulls(len(values), of)
        case Same():
            return pa.repeat(pa.scalar(values.value, of), len(values))
        case Numbers():
            return pa.array(values.array, of, from_pandas=True)
        case Coded():
            return _whole(of, values.values).take(pa.array(values.codes))
        case Texts():
            offsets = np.concatenate([[0], values.ends]).astype(np.int32)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.data)]
            array = pa.Array.from_buffers(of, len(values), buffers)
            array.validate(full=True)
            return array
        case _:
            return pa.array(values, of)


def _usable(field: Any, value: object) -> object:
    """The value, or what stands for it where Arrow does not take it: null, or in a column without nulls a zero."""
    try:
        pa.array([value], field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        if field.nullable:
            return None
        if pa.types.is_string(field.type):
            return str(value).encode("ascii", "backslashreplace").decode()
        return 0
    return value
