"""An answer's status line and header lines, for the general way and for batches."""

import time
from collections.abc import Sequence

from online.api.answering.asking import NO_WISH, Asking
from online.api.answering.outcome import Outcome
from online.api.http.conditional import refused_wish_line
from online.api.http.documents import server_timing
from online.api.http.exchange import Exchange
from online.api.http.problems import PROBLEM, retry_after
from online.errors import ServingError

_JSON = b"content-type: application/json"
_PROBLEM_JSON = b"content-type: " + PROBLEM.encode()


def outcome_lines(asking: Asking, outcomes: Sequence[Outcome], route_us: int, post_us: int) -> bytes:
    """Header lines of any answer that has outcomes, each with its end."""
    timing = b"server-timing: " + server_timing(outcomes, route_us, post_us) + b"\r\n"
    return timing if asking.wish is NO_WISH else timing + refused_wish_line(outcomes)


def send(asked: Exchange, status: int, body: bytes, error: ServingError | None, more: bytes) -> None:
    """`more`: header lines, each with its end. A 304 has no body, and says nothing of one."""
    request_id = asked.request_id.encode("ascii")
    if status == 304:
        lines = b"x-request-id: %b\r\n%b" % (request_id, more)
    else:
        kind = _JSON if error is None else _PROBLEM_JSON
        lines = b"%b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b" % (kind, len(body), request_id, more)
        if error is not None and (seconds := retry_after(error)) is not None:
            lines += b"retry-after: %b\r\n" % seconds
    asked.answer(status, lines, body)


def us_since(since_ns: int) -> int:
    """By the clock of `time.perf_counter_ns`."""
    return (time.perf_counter_ns() - since_ns) // 1000
