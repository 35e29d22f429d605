"""CSV and JSON of a table, and how cells read."""

import csv
import io

import pytest

from online.monitor import text
from online.monitor.tables import Cell, Column, Kind, Table, all_to_csv, to_csv
from tests.support.request_log import utc

COLUMNS = (Column("entity", "Entity"), Column("requests", "Requests", Kind.COUNT), Column("at", "At", Kind.TIME))


def table(*rows: list[Cell]) -> Table:
    return Table("latest", "Latest", COLUMNS, rows, "Nothing.")


@pytest.mark.parametrize(
    "entity", ["007", "9007199254740993", "1e5", "7.0", 'a"b,c', "two\nlines", " a", "\u00e9", "e\u0301"]
)
def test_identifiers_come_back_as_the_text_they_were(entity: str) -> None:
    written = to_csv(table([entity, 3, utc("2026-11-29 14:00")]))
    assert list(csv.reader(io.StringIO(written, newline="")))[1] == [entity, "3", "2026-11-29T14:00:00Z"]
    assert f'"{entity.replace(chr(34), chr(34) * 2)}",3,' in written


@pytest.mark.parametrize("entity", ["=1+1", "+7", "-7", "@SUM(A1)", "\t=1", "\r=1", "|calc", "%0A"])
def test_text_is_never_a_formula_but_numbers_stay_numbers(entity: str) -> None:
    written = list(csv.reader(io.StringIO(to_csv(table([entity, -3, None])), newline="")))
    assert written[1] == ["'" + entity, "-3", ""]


def test_all_tables_in_one_file() -> None:
    lines = all_to_csv([table(["a", 1, None])]).split("\r\n")
    assert lines[:3] == ['"table","row","column","value"', '"latest",1,"entity","a"', '"latest",1,"requests",1']


def test_json_keeps_text_and_names_columns() -> None:
    assert table(["007", 1, None]).as_json()["rows"] == [{"entity": "007", "requests": 1, "at": None}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (text.share(0.0), "0.0 %"),
        (text.share(0.00001), "< 0.1 %"),
        (text.share(0.99999), "> 99.9 %"),
        (text.share(1.0), "100.0 %"),
        (text.ms(0.0625), "0.062"),
        (text.ms(1.234), "1.23"),
        (text.ms(1234.5), "1,234"),
        (text.age(52_320), "14 h 32 min"),
        (text.age(61), "1 min 1 s"),
        (text.age(-1), "0 s"),
        (text.age(None), "–"),
        (text.cell("1e5", Kind.COUNT), "1e5"),
    ],
)
def test_numbers_as_text(written: str, expected: str) -> None:
    assert written == expected
