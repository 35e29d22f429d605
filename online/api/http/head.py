"""What is read of a request before its body: headers we act on, and the path, byte for byte."""

import itertools
import os
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from online.errors import InvalidEntity, InvalidRequest
from online.tracing.context import HEADER as TRACEPARENT

MAX_REQUEST_ID_BYTES = 128
_PREFIX = b"/v1/models/"
_HEX = frozenset(b"0123456789abcdefABCDEF")
_VISIBLE = bytes(range(0x21, 0x7F))
_made_ids = itertools.count(1)
_made_prefix = os.urandom(8).hex()


class Kind(Enum):
    """The end points that answer predictions."""

    PREDICT = "predict"
    GET = "get"
    BATCH = "batch"


# Of a span: the route, not the path, so that spans of one kind have one name.
SPAN_NAMES = {
    Kind.GET: "GET /v1/models/{model}/predictions/{entity}",
    Kind.PREDICT: "POST /v1/models/{model}/predict",
    Kind.BATCH: "POST /v1/models/{model}/predictions:batch",
}


class Target(NamedTuple):
    """`entity` is still percent-encoded."""

    kind: Kind
    model: bytes
    entity: bytes


class Head(NamedTuple):
    """As sent, None where not.

    `is_plain`: none of them changes what a GET is answered.
    """

    request_id: bytes | None = None
    deadline_ms: bytes | None = None
    content_type: bytes = b""
    content_length: bytes | None = None
    cache_control: bytes | None = None
    if_none_match: bytes | None = None
    is_plain: bool = False
    traceparent: bytes | None = None


def target_of(raw_path: bytes) -> Target | None:
    """Which prediction end point a path is for, or None.

    Slashes are compared before anything is decoded, so `%2F` in an entity splits nothing. All that follows
    `predictions/` is the entity; a colon may come as `%3A`.
    """
    if not raw_path.startswith(_PREFIX):
        return None
    model, slash, rest = raw_path[len(_PREFIX) :].partition(b"/")
    if not slash:
        return None
    if b"%" in model:
        model = unquote_to_bytes(model)
    if rest.startswith(b"predictions/"):
        return Target(Kind.GET, model, rest[12:])
    if rest == b"predict":
        return Target(Kind.PREDICT, model, b"")
    if rest in (b"predictions:batch", b"predictions%3Abatch", b"predictions%3abatch"):
        return Target(Kind.BATCH, model, b"")
    return None


def decode_entity(encoded: bytes) -> str:
    """The entity of a path: percent-decoded once, `+` stays `+`.

    Raises:
        InvalidEntity: an escape that is none, or bytes that are not UTF-8.
    """
    if b"%" in encoded:
        for escape in encoded.split(b"%")[1:]:
            if len(escape) < 2 or escape[0] not in _HEX or escape[1] not in _HEX:
                raise InvalidEntity(
                    "a % in the path is not followed by two hexadecimal digits", errors=_entity_error
                )
        encoded = unquote_to_bytes(encoded)
    try:
        return encoded.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidEntity("the entity in the path is not UTF-8", errors=_entity_error) from None


_entity_error = [{"field": "entity", "reason": "must be percent-encoded UTF-8"}]


PLAIN_HEAD = Head(is_plain=True)
READ_HEADERS = frozenset(
    (b"x-request-id", b"content-type", b"content-length", b"x-deadline-ms", b"cache-control", b"if-none-match")
)


# Read where answers are traced; elsewhere a request that has it is as plain as one without.
TRACED_HEADERS = READ_HEADERS | {TRACEPARENT}


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    request_id = deadline_ms = content_length = cache_control = if_none_match = traceparent = None
    content_type = b""
    for name, value in headers:
        if name == b"x-request-id":
            request_id = value
        elif name == b"content-type":
            content_type = value
        elif name == TRACEPARENT:
            traceparent = value
        elif name == b"content-length":
            content_length = value
        elif name == b"x-deadline-ms":
            deadline_ms = value
        elif name == b"cache-control":
            cache_control = value if cache_control is None else cache_control + b"," + value
        elif name == b"if-none-match":
            if_none_match = value if if_none_match is None else if_none_match + b"," + value
    return Head(
        *(request_id, deadline_ms, content_type, content_length, cache_control, if_none_match),
        is_plain=(deadline_ms, content_length, cache_control, if_none_match) == (None,) * 4,
        traceparent=traceparent,
    )


def request_id_of(given: bytes | None) -> str:
    """Visible ASCII of what was given, at most 128 bytes; one of our own where that leaves nothing."""
    if given:
        kept = given[:MAX_REQUEST_ID_BYTES].translate(None, delete=_INVISIBLE)
        if kept:
            return kept.decode("ascii")
    return f"{_made_prefix}{next(_made_ids):08x}"


_INVISIBLE = bytes(set(range(256)) - set(_VISIBLE))


def deadline_of(head: Head, longest_ms: int) -> int:
    """Milliseconds this request may take. Raises InvalidRequest where the header is no positive number."""
    if head.deadline_ms is None:
        return longest_ms
    if not head.deadline_ms.isdigit() or len(head.deadline_ms) > 9 or int(head.deadline_ms) < 1:
        reason = "must be a whole number of milliseconds, at least 1"
        raise InvalidRequest(f"X-Deadline-Ms {reason}", errors=[{"field": "X-Deadline-Ms", "reason": reason}])
    return min(longest_ms, int(head.deadline_ms))
