"""Tensor data to arrays: from JSON, from bytes, from gRPC's typed lists. Pure.

A shape is only ever compared with data that is there already, so one that claims 2^80 elements costs nothing.
"""

import reprlib
from collections.abc import Sequence
from itertools import chain
from math import prod
from struct import Struct

import numpy as np
import numpy.typing as npt

from online.inference.node.oip.datatypes import BYTES, NUMPY
from online.inference.node.oip.errors import Invalid, TooLarge

Array = npt.NDArray[np.generic]
Values = Array | list[bytes]

# Elements that become objects on the way, each many times its size on the wire: BYTES, and lists of gRPC.
MAX_OBJECTS = 1 << 20
_MAX_DIMENSIONS = 8
_LENGTH = Struct("<I")
_JSON_NUMBERS = frozenset((int, float))
_SHOWN = 80


def shown(value: object) -> str:
    """A caller's value in a message: ASCII, of bounded length, however long or deep the value is."""
    return reprlib.repr(value).encode("ascii", "backslashreplace").decode("ascii")[:_SHOWN]


def checked_shape(shape: object, name: str) -> tuple[int, ...]:
    """Raises Invalid."""
    if not isinstance(shape, list) or not 1 <= len(shape) <= _MAX_DIMENSIONS:
        raise Invalid(f"input {shown(name)}: shape must be 1 to {_MAX_DIMENSIONS} extents, not {shown(shape)}")
    for extent in shape:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 0:
            raise Invalid(f"input {shown(name)}: an extent must be a whole number from 0, not {shown(extent)}")
    return tuple(shape)


def checked_datatype(datatype: object, name: str) -> str:
    """Raises Invalid."""
    if isinstance(datatype, str) and (datatype in NUMPY or datatype == BYTES):
        return datatype
    known = ", ".join((*NUMPY, BYTES))
    raise Invalid(f"input {shown(name)}: datatype {shown(datatype)} is not taken; known are {known}")


def from_bytes(data: memoryview, datatype: str, shape: tuple[int, ...], name: str) -> Values:
    """The binary form: little-endian, row-major, no padding; BYTES with a length before each element.

    Raises:
        Invalid: too few or too many bytes for the shape.
        TooLarge: over `MAX_OBJECTS` elements of BYTES.
    """
    if datatype == BYTES:
        return _split_bytes(data, prod(shape), name)
    dtype = NUMPY[datatype]
    if len(data) != prod(shape) * dtype.itemsize:
        raise Invalid(
            f"input {shown(name)}: {len(data)} bytes for {datatype} of shape {shown(list(shape))}, "
            f"which takes {shown(prod(shape) * dtype.itemsize)}"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def from_json(data: object, datatype: str, shape: tuple[int, ...], name: str) -> Values:
    """JSON's form: a flat list in row-major order, or lists nested as the shape says.

    Raises:
        Invalid: another number of elements than the shape has, or elements that the datatype cannot hold.
    """
    if not isinstance(data, list):
        raise Invalid(f"input {shown(name)}: data must be a list, not {shown(data)}")
    flat = _flattened(data, shape, name)
    _check_count(len(flat), shape, name)
    kinds = set(map(type, flat))
    if datatype == BYTES:
        texts = [text.encode("utf-8") for text in flat if isinstance(text, str)]
        if len(texts) != len(flat):
            raise Invalid(f"input {shown(name)}: {datatype} data must be texts, as JSON has no other bytes")
        return texts
    allowed = {bool} if datatype == "BOOL" else {int} if NUMPY[datatype].kind in "iu" else _JSON_NUMBERS
    if kinds - allowed:
        wanted = "true or false" if datatype == "BOOL" else "whole numbers" if allowed == {int} else "numbers"
        raise Invalid(f"input {shown(name)}: {datatype} data must be {wanted}")
    return from_list(flat, datatype, shape, name)


def from_list(flat: Sequence[object], datatype: str, shape: tuple[int, ...], name: str) -> Array:
    """Python numbers, or booleans, of the right kind, in row-major order.

    Raises:
        Invalid: another number of elements than the shape has, or one that the datatype cannot hold.
    """
    _check_count(len(flat), shape, name)
    dtype = NUMPY[datatype]
    try:
        if dtype.kind != "f":
            return np.array(flat, dtype).reshape(shape)
        # By way of float64: the conversion to a narrower float does not complain of what it cannot hold.
        wide = np.array(flat, np.float64)
    except OverflowError:
        raise Invalid(f"input {shown(name)}: a number is out of the range of {datatype}") from None
    with np.errstate(over="ignore"):
        array = wide.astype(dtype)
    if not np.array_equal(np.isinf(array), np.isinf(wide)):
        raise Invalid(f"input {shown(name)}: a number is out of the range of {datatype}")
    return array.reshape(shape)


def from_byte_strings(elements: Sequence[bytes], shape: tuple[int, ...], name: str) -> list[bytes]:
    """Raises Invalid, TooLarge."""
    _check_count(len(elements), shape, name)
    _check_objects(len(elements), name)
    return list(elements)


def _flattened(data: list[object], shape: tuple[int, ...], name: str) -> list[object]:
    if len(shape) == 1 or not data or not isinstance(data[0], list):
        return data
    # Each level is checked whole before it is joined: the next has then as many elements as the data really holds.
    level: list[object] = data
    for depth, extent in enumerate(shape):
        expected = prod(shape[: depth + 1])
        if len(level) != expected:
            raise Invalid(f"input {shown(name)}: the nesting of data is not that of shape {shown(list(shape))}")
        if depth == len(shape) - 1:
            break
        inner = shape[depth + 1]
        if any(type(item) is not list or len(item) != inner for item in level):
            raise Invalid(
                f"input {shown(name)}: data must be flat, or nested as shape {shown(list(shape))} says ({extent} "
                f"lists of {inner})"
            )
        level = list(chain.from_iterable(level))  # type: ignore[arg-type]
    return level


def _check_count(count: int, shape: tuple[int, ...], name: str) -> None:
    if count != prod(shape):
        raise Invalid(
            f"input {shown(name)}: {count} elements for shape {shown(list(shape))}, which has {shown(prod(shape))}"
        )


def _check_objects(count: int, name: str) -> None:
    if count > MAX_OBJECTS:
        raise TooLarge(f"input {shown(name)}: {count} elements, the limit is {MAX_OBJECTS}: send fewer rows")


def _split_bytes(data: memoryview, count: int, name: str) -> list[bytes]:
    # Each element takes four bytes at least, so this bounds the list before it is made.
    if count * _LENGTH.size > len(data):
        raise Invalid(f"input {shown(name)}: {len(data)} bytes cannot hold {shown(count)} elements of BYTES")
    _check_objects(count, name)
    elements: list[bytes] = []
    at = 0
    for _ in range(count):
        start = at + _LENGTH.size
        if start > len(data):
            break
        (length,) = _LENGTH.unpack_from(data, at)
        at = start + length
        if at > len(data):
            break
        elements.append(bytes(data[start:at]))
    if len(elements) != count or at != len(data):
        raise Invalid(f"input {shown(name)}: the lengths of its BYTES elements do not add up to {len(data)} bytes")
    return elements
