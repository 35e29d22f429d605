"""Tensor data in its three forms: what is taken, and what is refused before memory is."""

import tracemalloc

import numpy as np
import orjson
import pytest

from online.inference.node.oip.datatypes import NUMBERS, NUMPY
from online.inference.node.oip.errors import Invalid
from online.inference.node.oip.tensors import checked_shape, from_bytes, from_json, from_list

HUGE = (1 << 40, 1 << 40)


def of_json(data: object, datatype: str, *shape: int) -> object:
    return from_json(orjson.loads(orjson.dumps(data)), datatype, shape, "x")


@pytest.mark.parametrize("datatype", NUMBERS)
def test_each_number_is_the_same_by_json_bytes_and_list(datatype: str) -> None:
    dtype = NUMPY[datatype]
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    expected = np.array([[limits.min, limits.max], [0, 1]], dtype)
    plain = expected.tolist()
    for found in (
        of_json(plain, datatype, 2, 2),
        of_json(expected.reshape(-1).tolist(), datatype, 2, 2),
        from_list(expected.reshape(-1).tolist(), datatype, (2, 2), "x"),
        from_bytes(memoryview(expected.tobytes()), datatype, (2, 2), "x"),
    ):
        assert isinstance(found, np.ndarray)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_bytes_have_their_length_before_each() -> None:
    elements = [b"AA", b"", "é".encode()]
    packed = b"".join(len(item).to_bytes(4, "little") + item for item in elements)
    assert from_bytes(memoryview(packed), "BYTES", (3,), "x") == elements
    assert from_bytes(memoryview(packed), "BYTES", (3, 1), "x") == elements
    assert of_json(["AA", "", "é"], "BYTES", 3) == elements
    for shape in ((2,), (4,), HUGE):
        with pytest.raises(Invalid):
            from_bytes(memoryview(packed), "BYTES", shape, "x")
    for broken in (packed[:-1], packed + b"\0", b"\xff\xff\xff\xff", b"\x02\0\0"):
        with pytest.raises(Invalid):
            from_bytes(memoryview(broken), "BYTES", (3,), "x")


@pytest.mark.parametrize(
    ("data", "datatype", "shape"),
    [
        ([1, 2], "FP32", (3,)),
        ([[1, 2], [3]], "FP32", (2, 2)),
        ([[1], [2]], "FP32", (2, 2)),
        ([[1, 2], [3, 4]], "FP32", (4,)),
        ([[[1]], [[2]]], "FP32", (2, 1)),
        ([1, [2]], "FP32", (2,)),
        ([[1, 2], 3], "FP32", (2, 2)),
        (["1"], "FP32", (1,)),
        ([None], "FP32", (1,)),
        ([True], "FP32", (1,)),
        ([True, 1], "INT64", (2,)),
        ([1.0], "INT64", (1,)),
        ([1 << 63], "INT64", (1,)),
        ([18446744073709551616.0], "UINT64", (1,)),
        ([-1], "UINT8", (1,)),
        ([256], "UINT8", (1,)),
        ([1e39], "FP32", (1,)),
        ([70000], "FP16", (1,)),
        ([1], "BOOL", (1,)),
        ([1], "BYTES", (1,)),
        ("text", "BYTES", (4,)),
        ({"0": 1}, "FP32", (1,)),
        (None, "FP32", (1,)),
        ([1], "FP32", HUGE),
        ([[1]], "FP32", HUGE),
        ([], "FP32", HUGE),
    ],
)
def test_data_that_is_not_of_its_shape_or_datatype_is_refused(
    data: object, datatype: str, shape: tuple[int, ...]
) -> None:
    with pytest.raises(Invalid, match=r"input 'x'"):
        of_json(data, datatype, *shape)


@pytest.mark.parametrize("shape", [None, [], "12", 3, [1.0], [True], [-1], ["1"], [1] * 9, {"0": 1}, [[1]]])
def test_a_shape_is_a_short_list_of_extents(shape: object) -> None:
    with pytest.raises(Invalid, match="input 'x'"):
        checked_shape(shape, "x")


def test_a_shape_costs_nothing_until_its_data_is_there() -> None:
    tracemalloc.start()
    for shape in (HUGE, (1 << 31,), (3, 1 << 30)):
        for datatype in ("FP32", "BYTES"):
            with pytest.raises(Invalid):
                from_bytes(memoryview(b"\0" * 12), datatype, shape, "x")
            with pytest.raises(Invalid):
                from_json([1, 2, 3], datatype, shape, "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_messages_stay_short_whatever_the_caller_sends() -> None:
    with pytest.raises(Invalid) as caught:
        from_json({"x" * 100_000: 1}, "FP32", (1,), "é" * 100_000)
    assert len(caught.value.message) < 400
    assert caught.value.message.isascii()
