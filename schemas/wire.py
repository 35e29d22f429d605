"""Frames between the API and the inference tier, over TCP or a Unix socket.

A frame is `u32 length of what follows | u8 type | body`, little-endian. Each side's first frame is a hello with
the range of wire versions it speaks; both then use the highest they share, so that tiers can be upgraded one
after the other. The API says hello first. On a node's directory socket the node then pushes status frames that
list its versions; on a worker's socket the API sends requests and cancels, and the worker answers in any order
and pushes status frames. A request that is part of a trace has a frame before it that says so (from version 2).
Durations are in microseconds and relative, since clocks of machines are not compared.

Pure functions and one incremental reader; no I/O.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

WIRE_VERSIONS = (1, 2)
# The first version with trace frames; a peer of an older one is sent none.
TRACES_FROM = 2
# What waits with this goes after all that waits with 0.
LOWEST_PRIORITY = 1
MAX_FRAME_BYTES = 64 << 20
MAX_HELLO_BYTES = 1 << 20
_HEAD_BYTES = 5  # length and type
_MAX_TENSORS = 64
_MAX_DIMENSIONS = 8

Float32Array = npt.NDArray[np.float32]
Tensor = npt.NDArray[np.float32] | npt.NDArray[np.int64]

_LENGTH = Struct("<I")
_TRACE = Struct("<I16s8s")  # id of the request that comes next, trace id, span id of its parent
_ID = Struct("<I")
_REQUEST = Struct("<I4sBIB")  # id, version tag, priority, deadline µs (0: none), tensors
_RESULT = Struct("<IIIIIII")  # id, rows, outputs, rows of the batch, queue µs, batch µs, execute µs
_ERROR = Struct("<IIB")  # id, retry after ms (0: none), bytes of the code
_TENSOR = Struct("<BB")  # dtype, dimensions; then u32 each, then the data
_DTYPES: tuple[np.dtype[np.float32] | np.dtype[np.int64], ...] = (np.dtype("<f4"), np.dtype("<i8"))
_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}


class FrameType(IntEnum):
    HELLO = 1
    REQUEST = 2
    RESULT = 3
    ERROR = 4
    CANCEL = 5
    STATUS = 6
    TRACE = 7


class WireError(ValueError):
    """The peer broke the protocol: the connection is of no further use."""


class Request(NamedTuple):
    """Rows for the model. `tensors` are in the order of the worker's hello, rows first in each.

    `version_tag` is the first four bytes of the bundle's digest: a worker refuses rows meant for another.
    `deadline_us` is the time left, 0 for none. `priority` 0 goes before 1.
    """

    request_id: int
    version_tag: bytes
    priority: int
    deadline_us: int
    tensors: list[Tensor]


class Trace(NamedTuple):
    """The request that comes next is part of this trace; `span_id` is its parent's. As in W3C's trace context."""

    request_id: int
    trace_id: bytes
    span_id: bytes


class Result(NamedTuple):
    """(rows, K) raw model outputs before calibration, and where their time went."""

    request_id: int
    outputs: Float32Array
    batch_rows: int
    queue_us: int
    batch_us: int
    execute_us: int


class Failure(NamedTuple):
    """A request that got no outputs. `code` is one of the stable codes of `schemas.http`."""

    request_id: int
    code: str
    message: str
    retry_after_ms: int


def frame(kind: FrameType, *parts: bytes | memoryview) -> bytes:
    size = 1 + sum(len(part) for part in parts)
    return b"".join((_LENGTH.pack(size), bytes((kind,)), *parts))


def hello(document: dict[str, object], versions: tuple[int, int] = WIRE_VERSIONS) -> bytes:
    """The first frame of a side. `document` says who it is; on a worker also its inputs, outputs and digest."""
    return frame(FrameType.HELLO, orjson.dumps({**document, "wire": versions}))


def status(document: dict[str, object]) -> bytes:
    return frame(FrameType.STATUS, orjson.dumps(document))


def cancel(request_id: int) -> bytes:
    return frame(FrameType.CANCEL, _ID.pack(request_id))


def request(message: Request) -> bytes:
    parts: list[bytes | memoryview] = [
        _REQUEST.pack(
            message.request_id,
            message.version_tag,
            message.priority,
            min(message.deadline_us, 0xFFFFFFFF),
            len(message.tensors),
        )
    ]
    for tensor in message.tensors:
        parts.append(_TENSOR.pack(_CODES[tensor.dtype], tensor.ndim))
        parts.append(np.array(tensor.shape, dtype="<u4").tobytes())
        parts.append(tensor.tobytes())
    return frame(FrameType.REQUEST, *parts)


def trace(message: Trace) -> bytes:
    return frame(FrameType.TRACE, _TRACE.pack(message.request_id, message.trace_id, message.span_id))


def result(message: Result) -> bytes:
    rows, outputs = message.outputs.shape
    head = _RESULT.pack(
        message.request_id,
        rows,
        outputs,
        message.batch_rows,
        *(min(us, 0xFFFFFFFF) for us in (message.queue_us, message.batch_us, message.execute_us)),
    )
    return frame(FrameType.RESULT, head, np.ascontiguousarray(message.outputs, "<f4").tobytes())


def failure(message: Failure) -> bytes:
    code = message.code.encode()
    head = _ERROR.pack(message.request_id, message.retry_after_ms, len(code))
    return frame(FrameType.ERROR, head, code, message.message.encode("utf-8", "replace"))


def agree(peer: dict[str, object], own: tuple[int, int] = WIRE_VERSIONS) -> int:
    """The wire version to speak with the peer whose hello this is. Raises WireError where there is none."""
    match peer.get("wire"):
        case [int(low), int(high)] if low <= high:
            if max(low, own[0]) <= min(high, own[1]):
                return min(high, own[1])
            raise WireError(f"the peer speaks wire versions {low} to {high}, this side {own[0]} to {own[1]}")
    raise WireError("the peer's hello names no range of wire versions")


def parse_document(body: memoryview) -> dict[str, object]:
    """The JSON object of a hello or status frame. Raises WireError."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise WireError("a hello or status frame is not JSON") from None
    if not isinstance(document, dict):
        raise WireError("a hello or status frame is not a JSON object")
    return document


def parse_id(body: memoryview) -> int:
    """The request a cancel frame, or the head of a broken request frame, is about. Raises WireError."""
    if len(body) < _ID.size:
        raise WireError("a frame is too short to name its request")
    return int(_ID.unpack_from(body)[0])


def parse_request(body: memoryview) -> Request:
    """Raises WireError where lengths do not add up; shapes are compared with the model by the worker."""
    try:
        request_id, tag, priority, deadline_us, count = _REQUEST.unpack_from(body)
        if count > _MAX_TENSORS:
            raise WireError(f"{count} tensors in a request")
        tensors: list[Tensor] = []
        at = _REQUEST.size
        for _ in range(count):
            code, dimensions = _TENSOR.unpack_from(body, at)
            if code >= len(_DTYPES) or not 1 <= dimensions <= _MAX_DIMENSIONS:
                raise WireError(f"a tensor of dtype {code} with {dimensions} dimensions")
            at += _TENSOR.size
            shape = Struct(f"<{dimensions}I").unpack_from(body, at)
            at += 4 * dimensions
            size = _DTYPES[code].itemsize
            for extent in shape:
                size *= extent
            if at + size > len(body):
                raise WireError("a tensor is longer than its frame")
            tensors.append(np.frombuffer(body[at : at + size], _DTYPES[code]).reshape(shape))
            at += size
    except error:
        raise WireError("a request frame is cut short") from None
    if at != len(body):
        raise WireError("a request frame is longer than its tensors")
    return Request(request_id, tag, priority, deadline_us, tensors)


def parse_trace(body: memoryview) -> Trace:
    """Raises WireError."""
    if len(body) != _TRACE.size:
        raise WireError("a trace frame of another length")
    return Trace(*_TRACE.unpack(body))


def parse_result(body: memoryview) -> Result:
    """Raises WireError."""
    try:
        request_id, rows, outputs, batch_rows, queue_us, batch_us, execute_us = _RESULT.unpack_from(body)
    except error:
        raise WireError("a result frame is cut short") from None
    if len(body) != _RESULT.size + 4 * rows * outputs:
        raise WireError(f"{len(body)} bytes of result for {rows} rows of {outputs} outputs")
    values = np.frombuffer(body[_RESULT.size :], "<f4").reshape(rows, outputs)
    return Result(request_id, values, batch_rows, queue_us, batch_us, execute_us)


def parse_failure(body: memoryview) -> Failure:
    """Raises WireError."""
    try:
        request_id, retry_after_ms, length = _ERROR.unpack_from(body)
    except error:
        raise WireError("an error frame is cut short") from None
    text = bytes(body[_ERROR.size :])
    return Failure(
        request_id,
        text[:length].decode("ascii", "replace"),
        text[length:].decode("utf-8", "replace"),
        retry_after_ms,
    )


class FrameReader:
    """Splits a stream into frames. A frame's body stays valid for as long as it is referenced."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = _HEAD_BYTES

    def feed(self, data: bytes) -> list[tuple[FrameType, memoryview]]:
        """The frames that `data` completes. Raises WireError on a length or type that cannot be."""
        self._chunks.append(data)
        self._have += len(data)
        if self._have < self._need:  # a long frame in many pieces is joined once, not at each piece
            return []
        view, at = memoryview(b"".join(self._chunks) if len(self._chunks) > 1 else data), 0
        frames: list[tuple[FrameType, memoryview]] = []
        self._need = _HEAD_BYTES
        while len(view) - at >= _HEAD_BYTES:
            size = self._size_at(view, at)
            if len(view) - at < size:
                self._need = size
                break
            frames.append((_frame_type(view[at + 4]), view[at + _HEAD_BYTES : at + size]))
            at += size
        self._chunks = [bytes(view[at:])] if at < len(view) else []
        self._have = len(view) - at
        return frames

    def _size_at(self, view: memoryview, at: int) -> int:
        """Bytes of the frame at `at`, its length field included."""
        (size,) = _LENGTH.unpack_from(view, at)
        if not 1 <= size <= self._max:
            raise WireError(f"a frame of {size} bytes; the limit is {self._max}")
        return int(size) + _LENGTH.size


def _frame_type(code: int) -> FrameType:
    try:
        return FrameType(code)
    except ValueError:
        raise WireError(f"a frame of unknown type {code}") from None


def version_tag(digest: str) -> bytes:
    """The four bytes by which a request names the bundle it is meant for."""
    return bytes.fromhex(digest[:8])


def describe_inputs(inputs: Sequence[tuple[str, str, int]]) -> list[dict[str, object]]:
    """The `inputs` of a worker's hello: name, dtype and values a row of each tensor, in wire order."""
    return [{"name": name, "dtype": dtype, "width": width} for name, dtype, width in inputs]
