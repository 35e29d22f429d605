"""Tables of a page: one form for the HTML, the CSV and the JSON, so that they cannot disagree. Pure."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Cell = str | int | float | datetime | None

# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


class Kind(StrEnum):
    """How a column is shown. Identifiers are text, whatever they look like."""

    TEXT = "text"
    COUNT = "count"
    SHARE = "share"
    MS = "ms"
    NUMBER = "number"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    label: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """A row has a cell a column. `empty` is said where there is none, `note` how it was computed."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    empty: str
    note: str = ""

    def as_json(self) -> dict[str, object]:
        """Title, note and rows as objects; identifiers stay text, absent values are null."""
        keys = [column.key for column in self.columns]
        return {
            "title": self.title,
            "note": self.note,
            "rows": [dict(zip(keys, map(_plain, row), strict=True)) for row in self.rows],
        }


def to_csv(table: Table) -> str:
    """RFC 4180. Text is quoted and never a formula: a leading `=`, `+`, `-`, `@` or control gets an apostrophe."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow([column.key for column in table.columns])
    writer.writerows([[_csv_cell(cell) for cell in row] for row in table.rows])
    return out.getvalue()


def all_to_csv(tables: Iterable[Table]) -> str:
    """Every table of a page in one file: a line a cell, with table, row number from 1, column and value."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n")
    writer.writerow(["table", "row", "column", "value"])
    for table in tables:
        for number, row in enumerate(table.rows, 1):
            for column, cell in zip(table.columns, row, strict=True):
                writer.writerow([table.name, number, column.key, _csv_cell(cell)])
    return out.getvalue()


def _csv_cell(cell: Cell) -> str | int | float:
    plain = _plain(cell)
    if plain is None:
        return ""
    if isinstance(plain, str) and plain.startswith(_FORMULA):
        return "'" + plain
    return plain


def _plain(cell: Cell) -> str | int | float | None:
    return cell.isoformat().replace("+00:00", "Z") if isinstance(cell, datetime) else cell
