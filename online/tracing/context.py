"""W3C's trace context (Recommendation of 2021-11): which trace a request is part of. Pure."""

import os
import re
from hashlib import blake2b
from typing import NamedTuple

HEADER = b"traceparent"
# A later version may append fields behind another dash; version ff is none.
_FORMAT = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z", re.DOTALL)
_SAMPLED = 1


class TraceContext(NamedTuple):
    """`trace_id`: 16 bytes; `span_id`: 8 bytes, of the span that is the parent of what comes next."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool


def parse(header: bytes) -> TraceContext | None:
    """Of a `traceparent`; None where it is none: a trace begins anew then."""
    match = _FORMAT.match(header)
    if match is None or (match[1] == b"00" and match[5] is not None):
        return None
    trace_id, span_id = (bytes.fromhex(match[place].decode()) for place in (2, 3))
    if not any(trace_id) or not any(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(match[4], 16) & _SAMPLED))


def header_of(context: TraceContext) -> str:
    return f"00-{context.trace_id.hex()}-{context.span_id.hex()}-{int(context.is_sampled):02x}"


def new_trace_id() -> bytes:
    return os.urandom(16)


def new_span_id() -> bytes:
    return os.urandom(8)


def part_id(span_id: bytes, part: str) -> bytes:
    """Of a part of a span: whoever knows the span knows it, before the part has begun."""
    return blake2b(part.encode(), key=span_id, digest_size=8).digest()
