"""What HTTP's caching says of a request and of an answer: RFC 9110 and 9111.

On the path of every hit: no JSON is looked at, the tag comes from the stored outputs and their time.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from zlib import crc32

from online.api.answering.asking import NO_WISH, Wish
from online.api.answering.outcome import Outcome
from online.api.http.head import Head
from online.api.routes.view import VersionView
from schemas.http import Source

# RFC 9111, 1.2.2: what a number of seconds that is too large stands for.
_MOST_S = 1 << 31
_MOST_BYTES = 1024
_NOT_KEPT = b"cache-control: no-store\r\n"
_OVER_CAP = b'cache-status: hotset; hit; detail="over the rate of fresh answers"\r\n'


def wish_of(head: Head) -> Wish:
    """What the request's `Cache-Control` asks for."""
    given = head.cache_control
    if given is None:
        return NO_WISH
    return _wish(given) if len(given) <= _MOST_BYTES else NO_WISH


@lru_cache(maxsize=256)
def _wish(given: bytes) -> Wish:
    """Unknown directives are ignored; a `max-age` that is no number counts as 0, of several the least."""
    max_age_s: int | None = None
    is_no_cache = is_only_if_cached = False
    for directive in given.lower().split(b","):
        name, _, argument = directive.partition(b"=")
        match name.strip():
            case b"max-age":
                seconds = _seconds(argument)
                max_age_s = seconds if max_age_s is None else min(max_age_s, seconds)
            case b"no-cache":
                is_no_cache = True
            case b"only-if-cached":
                is_only_if_cached = True
    return Wish(None if max_age_s is None else 1000 * max_age_s, is_no_cache, is_only_if_cached)


def _seconds(argument: bytes) -> int:
    digits = argument.strip().strip(b'"')
    if not digits.isdigit():
        return 0
    return min(_MOST_S, int(digits[:20]))


def etag_of(outcome: Outcome) -> bytes:
    """Weak: of the version, the time of computation and the outputs; not of the request, nor of the age."""
    version, outputs = outcome.version, outcome.outputs
    if version is None or outputs is None or outcome.source is Source.DEFAULT:
        return b""
    return etag_of_numbers(version, outcome.computed_at_ms, _numbers(len(outputs)).pack(*outputs))


def etag_of_numbers(version: VersionView, computed_at_ms: int, numbers: bytes) -> bytes:
    """`numbers`: the outputs, packed as `schemas.codec` does it."""
    return b'W/"%b-%x-%x"' % (version.etag_seed, computed_at_ms, crc32(numbers))


@lru_cache(maxsize=256)
def _numbers(count: int) -> Struct:
    return Struct(f"<{count}f")


def head_lines(outcome: Outcome, etag: bytes, now_ms: int) -> bytes:
    """Header lines of an answer to GET, each with its end; `etag` as `etag_of` gives it."""
    version = outcome.version
    if not etag or version is None or outcome.error is not None:
        return _NOT_KEPT
    age_s = max(0, now_ms - outcome.computed_at_ms) // 1000
    return b"etag: %b\r\nage: %d\r\n%b" % (etag, age_s, version.cache_lines)


def is_not_modified(head: Head, etag: bytes) -> bool:
    """Whether the client says that it has this answer already."""
    wanted = head.if_none_match
    if wanted is None or not etag:
        return False
    if wanted == etag:
        return True
    # Weak comparison: W/ says nothing. Our tags hold no comma, so another's that does is no match either way.
    tags = [tag.strip().removeprefix(b"W/") for tag in wanted.split(b",")]
    return b"*" in tags or etag.removeprefix(b"W/") in tags


def conditional(head: Head, outcome: Outcome, now_ms: int) -> bytes:
    """Header lines of the answer to a GET, each with its end; sets `is_not_modified`, for a 304 without a body."""
    outcome.etag = etag = outcome.etag or etag_of(outcome)
    outcome.is_not_modified = is_not_modified(head, etag)
    return head_lines(outcome, etag, now_ms)


def refused_wish_line(outcomes: Sequence[Outcome]) -> bytes:
    """A header line (RFC 9211) where a stored answer was given though a fresher one was asked for, else none."""
    return _OVER_CAP if any(outcome.is_wish_refused for outcome in outcomes) else b""
