"""HTTP/1.1 answers: where one ends, for the generator, and what it says, for whoever reads it after the run."""

from typing import NamedTuple

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class NotAnAnswer(ValueError):
    """Bytes that are no answer with a length of its body; the servers measured here all send one."""


class Answer(NamedTuple):
    """`head` without its last empty line."""

    status: int
    head: bytes
    body: bytes


def length_of(received: bytes) -> int | None:
    """Bytes of the whole answer that begins here, or None while its head is incomplete.

    Raises:
        NotAnAnswer: the head is no HTTP/1.1 answer, or does not say how long the body is.
    """
    end = received.find(_END_OF_HEAD)
    if end < 0:
        return None
    head = received[:end].lower()
    at = head.find(_LENGTH)
    if not head.startswith(b"http/1.1 ") or at < 0:
        raise NotAnAnswer(repr(received[:120]))
    value = head[at + len(_LENGTH) :].partition(b"\r\n")[0].strip()
    if not value.isdigit():
        raise NotAnAnswer(repr(received[:120]))
    return end + len(_END_OF_HEAD) + int(value)


def parse(raw: bytes) -> Answer:
    """Raises NotAnAnswer."""
    if length_of(raw) != len(raw) or not raw[9:12].isdigit():
        raise NotAnAnswer(repr(raw[:120]))
    head, _, body = raw.partition(_END_OF_HEAD)
    return Answer(int(raw[9:12]), head, body)
