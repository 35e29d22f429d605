import pytest

from tests.bench.load.answer import NotAnAnswer, length_of, parse

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


def test_the_length_is_known_from_the_end_of_the_head_on() -> None:
    head = WHOLE.index(b"hello")
    assert [length_of(WHOLE[:end]) for end in (0, 20, head - 1)] == [None] * 3
    assert [length_of(WHOLE[:end]) for end in (head, head + 2, len(WHOLE))] == [len(WHOLE)] * 3
    assert length_of(WHOLE + WHOLE) == len(WHOLE)


def test_parse_takes_one_answer_apart() -> None:
    answer = parse(WHOLE)
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.head.endswith(b"Content-Length: 5")


@pytest.mark.parametrize(
    "received",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\nhello",
        b"SSH-2.0-OpenSSH\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_what_has_no_length_is_no_answer(received: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        length_of(received)


@pytest.mark.parametrize("raw", [WHOLE[:-1], WHOLE + b"x", b""])
def test_parse_refuses_a_piece_and_a_surplus(raw: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        parse(raw)
