"""Golden bytes of wire version 2, and what a reader does with a stream that is cut, joined or wrong."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import wire

HELLO = bytes.fromhex("1c000000017b22726f6c65223a22617069222c2277697265223a5b312c325d7d")
REQUEST = bytes.fromhex(
    "330000000209000000deadbeef01204e0000020002010000000200000000000"
    "03f0000803f010201000000010000000300000000000000"
)
RESULT = bytes.fromhex("2500000003090000000100000002000000040000000a000000140000001e0000000000003f0000803f")
FAILURE = bytes.fromhex("180000000409000000fa0000000a6f7665726c6f6164656466756c6c")
CANCEL = bytes.fromhex("050000000509000000")
STATUS = bytes.fromhex("12000000067b227374617465223a227265616479227d")
TRACE = bytes.fromhex("1d0000000709000000000102030405060708090a0b0c0d0e0fa0a1a2a3a4a5a6a7")
STREAM = HELLO + REQUEST + RESULT + FAILURE + CANCEL + STATUS + TRACE

NUMBERS = np.array([[0.5, 1]], np.float32)
CATEGORIES = np.array([[3]], np.int64)
CONTEXT = wire.Trace(9, bytes(range(16)), bytes(range(0xA0, 0xA8)))


def test_frames_have_their_golden_bytes() -> None:
    assert wire.hello({"role": "api"}) == HELLO
    assert wire.request(wire.Request(9, b"\xde\xad\xbe\xef", 1, 20_000, [NUMBERS, CATEGORIES])) == REQUEST
    assert wire.result(wire.Result(9, NUMBERS, 4, 10, 20, 30)) == RESULT
    assert wire.failure(wire.Failure(9, "overloaded", "full", 250)) == FAILURE
    assert wire.cancel(9) == CANCEL
    assert wire.status({"state": "ready"}) == STATUS
    assert wire.trace(CONTEXT) == TRACE


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_gives_the_same_frames_however_it_is_cut(cuts: list[int]) -> None:
    reader = wire.FrameReader()
    edges = [0, *sorted(cuts), len(STREAM)]
    frames = [f for a, b in itertools.pairwise(edges) for f in reader.feed(STREAM[a:b])]
    assert [kind for kind, _ in frames] == [1, 2, 3, 4, 5, 6, 7]
    request = wire.parse_request(frames[1][1])
    assert request[:4] == (9, b"\xde\xad\xbe\xef", 1, 20_000)
    np.testing.assert_array_equal(request.tensors[0], NUMBERS)
    np.testing.assert_array_equal(request.tensors[1], CATEGORIES)
    result = wire.parse_result(frames[2][1])
    np.testing.assert_array_equal(result.outputs, NUMBERS)
    assert result.batch_rows == 4
    assert result[3:] == (10, 20, 30)
    assert wire.parse_failure(frames[3][1]) == wire.Failure(9, "overloaded", "full", 250)
    assert wire.parse_id(frames[4][1]) == 9
    assert wire.parse_document(frames[5][1]) == {"state": "ready"}
    assert wire.parse_trace(frames[6][1]) == CONTEXT


def body_of(frame: bytes) -> memoryview:
    return wire.FrameReader().feed(frame)[0][1]


@given(st.binary(max_size=80))
def test_any_bytes_as_a_body_parse_or_raise_wire_error(body: bytes) -> None:
    for parse in (wire.parse_request, wire.parse_result, wire.parse_failure, wire.parse_document, wire.parse_id):
        try:
            parse(memoryview(body))
        except wire.WireError:
            continue


@pytest.mark.parametrize("cut", range(1, len(REQUEST) - 5))
def test_a_request_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(wire.WireError):
        wire.parse_request(body_of(REQUEST)[:-cut])


def test_a_frame_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(wire.WireError, match="limit is 100"):
        wire.FrameReader(100).feed(b"\xff\x00\x00\x00\x02")


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(wire.WireError, match="unknown type 99"):
        wire.FrameReader().feed(b"\x01\x00\x00\x00\x63")


def test_sides_agree_on_the_highest_common_version() -> None:
    assert wire.agree({"wire": [1, 3]}, (1, 2)) == 2
    assert wire.agree({"wire": [2, 3]}, (1, 2)) == 2
    with pytest.raises(wire.WireError, match="speaks wire versions 3 to 4"):
        wire.agree({"wire": [3, 4]}, (1, 2))
    with pytest.raises(wire.WireError, match="names no range"):
        wire.agree({"wire": "1"})
