"""Which lines of a history made something else live."""

import orjson

from schemas.history import last_switch_to, read_history, switches


def line(why: str, generation: str | None, before: str = "5.1", stable: str = "1") -> bytes:
    said = {"at": "2026-11-28T03:00:00+00:00", "why": why, "from": before, "to": "5.2"}
    return orjson.dumps({**said, "stable": stable, "generation": generation})


def whys(*newest_first: bytes) -> list[str]:
    return [change.why for change in switches(read_history(newest_first))]


def test_a_change_that_leaves_what_is_live_is_no_switch() -> None:
    assert whys(line("retire", "b"), line("activate b", "b"), line("retire", "a"), line("first", "a", "0.0")) == [
        "activate b",
        "first",
    ]


def test_the_same_generation_of_another_version_is_a_switch() -> None:
    assert whys(line("x", "a", stable="2"), line("first", "a", "0.0")) == ["x", "first"]


def test_the_oldest_line_that_is_kept_counts_only_where_it_says_that_it_is_one() -> None:
    assert whys(line("retire", "a")) == []
    assert whys(line("rollback: by hand", "a")) == ["rollback: by hand"]
    assert whys(line("activate b", "b"), line("retire", "a")) == ["activate b"]


def test_of_several_switches_to_the_same_the_newest_counts() -> None:
    changes = read_history([line("rollback: x", "a"), line("activate b", "b"), line("activate a", "a", "0.0")])
    assert last_switch_to(changes)["1", "a"].why == "rollback: x"


def test_lines_that_are_none_are_left_out_and_older_ones_say_nobody() -> None:
    [change] = read_history([b"{", b"[]", line("first", None, "0.0")])
    assert (change.by, change.live) == (None, ("1", None))
