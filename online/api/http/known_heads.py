"""Requests whose head is known but for its first line: a client sends the same header lines with each of them.

Parsing calls back into Python for each line, which is more work than a look-up. So what stands after the first
line is remembered once it was parsed and found to say nothing that is acted on; from then on it is compared.
"""

from collections.abc import Sequence

from online.api.http.head import Kind, Target

_START, _BEFORE_ENTITY, _END = b"GET /v1/models/", b"/predictions/", b" HTTP/1.1\r\n"
_MAX_REQUEST_BYTES = 2048
_MAX_BLOCKS = 256
# What HTTP's parser takes in a path; a query, a fragment and other bytes are its own to judge.
_PATH_BYTES = bytes(set(range(0x21, 0x7F)) - set(b"?#"))
# These say how the connection or the body goes on, which the parser has to hear.
_PARSERS_OWN = frozenset((b"connection", b"content-length", b"expect", b"transfer-encoding", b"upgrade"))


class KnownHeads:
    """Of all connections of a worker. `len` is how many blocks of header lines are known."""

    def __init__(self) -> None:
        self._blocks: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._blocks)

    def target_of(self, received: bytes) -> Target | None:
        """What is asked for by a GET that is all that was received, if its header lines are known; else None.

        Args:
            received: what came between two requests.
        """
        if len(received) > _MAX_REQUEST_BYTES or not received.startswith(_START):
            return None
        line, _, block = received.partition(_END)
        if block not in self._blocks or line.translate(None, _PATH_BYTES) != b" ":
            return None
        model, between, entity = line[15:].partition(_BEFORE_ENTITY)
        return None if not between or b"/" in model or b"%" in model else Target(Kind.GET, model, entity)

    def learn(self, received: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Remembers the header lines of a request that was parsed.

        Args:
            received: all that came between two requests, which held one whole request.
            headers: what the parser found, names in small letters; none of them is read.
        """
        if len(received) > _MAX_REQUEST_BYTES or not received.startswith(_START):
            return
        _, _, block = received.partition(_END)
        # One empty line, at the end: there is no body and no second request in it.
        if block.find(b"\r\n\r\n") != len(block) - 4 or any(name in _PARSERS_OWN for name, _ in headers):
            return
        if len(self._blocks) >= _MAX_BLOCKS:
            self._blocks.clear()  # of clients whose lines are never the same nothing is worth keeping
        self._blocks.add(block)
