"""Columns of plain values to one Arrow batch of a log. A bad value costs itself, never its column."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

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
        return pa.array(values, field.type), 0
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        kept = [_usable(field, value) for value in values]
        lost = sum(a is not b for a, b in zip(kept, values, strict=True))
        return pa.array(kept, field.type), lost


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
