"""Cache-Control of requests, tags of answers, and the cap on answers computed anew."""

import numpy as np
import pytest

from online.api.answering.asking import NO_WISH, Wish
from online.api.answering.cap import FreshCap
from online.api.answering.outcome import Outcome
from online.api.http.conditional import conditional, etag_of, is_not_modified, wish_of
from online.api.http.head import Head, read_head
from schemas.http import Source
from tests.support.small_view import small_view


def head(**headers: bytes) -> Head:
    return read_head([(name.replace("_", "-").encode(), given) for name, given in headers.items()])


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        (b"", NO_WISH),
        (b"max-age=60", Wish(60_000)),
        (b" Max-Age = 60 ", Wish(60_000)),
        (b'max-age="60"', Wish(60_000)),
        (b"no-cache", Wish(is_no_cache=True)),
        (b"NO-CACHE, max-age=0", Wish(0, True)),
        (b"only-if-cached,max-age=5", Wish(5000, False, True)),
        (b"max-stale=5, min-fresh=3, no-store, no-transform, x=1", NO_WISH),
        (b"max-age=60, max-age=7", Wish(7000)),
        (b"max-age", Wish(0)),
        (b"max-age=-1", Wish(0)),
        (b"max-age=1.5", Wish(0)),
        (b"max-age=soon", Wish(0)),
        (b"max-age=99999999999999999999999999999", Wish((1 << 31) * 1000)),
        (b"\xff\xfe,,;=,max-age=1", Wish(1000)),
        (b"x" * 2000 + b",no-cache", NO_WISH),
    ],
)
def test_cache_control(given: bytes, wish: Wish) -> None:
    assert wish_of(head(cache_control=given)) == wish


def test_several_lines_are_one() -> None:
    lines = [(b"cache-control", b"max-age=9"), (b"cache-control", b"no-cache"), (b"if-none-match", b'"a"')]
    assert wish_of(read_head([*lines, (b"if-none-match", b'"b"')])) == Wish(9000, True)
    assert read_head([*lines, (b"if-none-match", b'"b"')]).if_none_match == b'"a","b"'
    assert wish_of(read_head([])) is NO_WISH


def outcome(at_ms: int = 5000, minutes: float = 1.0, source: Source = Source.PRECOMPUTED) -> Outcome:
    outputs = np.array([0.5, minutes], np.float32)
    return Outcome(entity="e", version=small_view().stable, source=source, outputs=outputs, computed_at_ms=at_ms)


def test_a_tag_is_of_time_and_outputs() -> None:
    tag = etag_of(outcome())
    assert tag == etag_of(outcome(source=Source.CACHED))
    assert len({tag, etag_of(outcome(at_ms=5001)), etag_of(outcome(minutes=1.0000001))}) == 3
    assert etag_of(outcome(source=Source.DEFAULT)) == b""
    assert etag_of(Outcome()) == b""


def test_if_none_match() -> None:
    tag = etag_of(outcome())
    strong = tag.removeprefix(b"W/")
    for given in (tag, strong, b"*", b'"x", ' + tag, strong + b' , "y"'):
        assert is_not_modified(head(if_none_match=given), tag), given
    for given in (b"", b'"x"', strong.strip(b'"'), tag[:-2]):
        assert not is_not_modified(head(if_none_match=given), tag), given
    assert not is_not_modified(head(if_none_match=b"*"), b"")
    assert not is_not_modified(head(), tag)


def test_header_lines() -> None:
    one = outcome()
    lines = conditional(head(), one, 8700)
    assert b"-1388-" in lines.split(b'"')[1]
    assert lines.endswith(b"\r\nage: 3\r\ncache-control: private, max-age=0\r\nvary: x-deadline-ms\r\n")
    assert not one.is_not_modified
    conditional(head(if_none_match=etag_of(one)), one, 8700)
    assert one.is_not_modified


def test_the_cap_holds_one_second_and_refills() -> None:
    now_s = [0.0]
    cap = FreshCap(3, lambda: now_s[0])
    assert [cap.take("a") for _ in range(5)] == [True] * 3 + [False] * 2
    assert cap.take("b")
    now_s[0] = 0.34
    assert [cap.take("a") for _ in range(2)] == [True, False]
    now_s[0] = 1000.0
    assert [cap.take("a") for _ in range(4)] == [True] * 3 + [False]
    assert (cap.granted, cap.refused) == (8, 4)


def test_a_cap_of_less_than_one_a_second_grants_one_and_of_none_none() -> None:
    now_s = [0.0]
    cap = FreshCap(0.5, lambda: now_s[0])
    assert [cap.take("a"), cap.take("a")] == [True, False]
    now_s[0] = 2.0
    assert cap.take("a")
    assert not FreshCap(0, lambda: now_s[0]).take("a")
