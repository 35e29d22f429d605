"""W3C's `traceparent`: what is taken for one, and what begins a trace anew."""

import pytest

from online.tracing.context import TraceContext, header_of, parse, part_id

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), (f"00-{TRACE}-{SPAN}-03", True)],
)
def test_a_header_and_back(header: str, is_sampled: bool) -> None:
    found = parse(header.encode())
    assert found == TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), is_sampled)
    assert parse(header_of(found).encode()) == found


def test_a_later_version_may_say_more() -> None:
    assert parse(f"cc-{TRACE}-{SPAN}-01-what-the-future-brings".encode()) is not None
    assert parse(f"cc-{TRACE}-{SPAN}-01.".encode()) is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
    ],
)
def test_what_is_no_header_is_none(header: str) -> None:
    assert parse(header.encode()) is None


def test_parts_of_a_span_have_ids_of_their_own() -> None:
    span = bytes.fromhex(SPAN)
    assert len({part_id(span, "live"), part_id(span, "route"), part_id(bytes(8), "live"), span}) == 4
    assert part_id(span, "live") == part_id(span, "live")
