"""What the charts mark: changes of what is live, in the step that holds them."""

import orjson

from online.monitor.overview.changes import changes_table, changes_within
from online.monitor.windows import RANGES, window_at
from schemas.history import Change, read_history
from tests.support.request_log import utc

WINDOW = window_at(RANGES[1], utc("2026-11-29 14:07:31").timestamp())


def history(*oldest_first: tuple[str, str, str | None, str]) -> list[Change]:
    """(at, why, generation, version) of each change."""
    lines = [
        orjson.dumps(
            {
                "at": utc(at).isoformat(),
                "why": why,
                "by": "anna",
                "from": f"1.{number}" if number else "0.0",
                "to": f"1.{number + 1}",
                "stable": version,
                "generation": generation,
            }
        )
        for number, (at, why, generation, version) in enumerate(oldest_first)
    ]
    return read_history(lines[::-1])


def test_a_change_is_in_the_step_that_holds_it() -> None:
    """The window begins at 14:15 of the day before, in steps of a quarter of an hour: 03:20 is the 53rd."""
    found = changes_within(
        history(
            ("2026-11-28 03:00", "activate a", "a", "7"),
            ("2026-11-29 03:20", "activate b", "b", "7"),
            ("2026-11-29 03:25", "retire", "b", "7"),
        ),
        WINDOW,
    )
    assert found.by_step == {52: "version 7, b (activate b)"}
    assert (found.steps, found.cell(52), found.cell(51)) == ([52], ["version 7, b (activate b)"], [None])
    assert [column.key for column in found.column] == ["changed"]
    assert [row[:4] for row in changes_table(found, None).rows] == [
        [utc("2026-11-29 03:20"), "7", "b", "activate b"],
    ]


def test_several_in_a_step_are_told_in_order_and_edges_are_inside() -> None:
    found = changes_within(
        history(
            ("2026-11-28 14:14:59", "activate a", "a", "7"),
            ("2026-11-28 14:15:00", "activate b", "b", "7"),
            ("2026-11-28 14:16:00", "rollback: slow", None, "6"),
            ("2026-11-29 14:15:00", "activate c", "c", "7"),
        ),
        WINDOW,
    )
    assert found.by_step == {0: "version 7, b (activate b); version 6, no generation (rollback: slow)"}


def test_without_a_change_tables_have_no_column() -> None:
    found = changes_within([], WINDOW)
    assert (found.column, found.cell(3), found.steps) == ([], [], [])
    assert changes_table(found, None).empty.startswith("Nothing was released")
    assert changes_table(found, "Redis cannot be read").empty == "Redis cannot be read."
