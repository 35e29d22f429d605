"""The rows of a table as HTML: by far the most of a page, and so not left to templates."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from online.monitor import text
from online.monitor.tables import Cell, Column, Kind, Table

# An identifier is not cut at its hyphens; a longer one may be, since an entity has up to 256 bytes.
_LONGEST_WORD = 32


def table_rows(table: Table) -> Markup:
    """The body's rows; every value is escaped. The first column heads its row."""
    return Markup("\n".join(_row(row, table.columns) for row in table.rows))


def _row(row: Sequence[Cell], columns: Sequence[Column]) -> str:
    head, *others = (_cell(value, column.kind) for value, column in zip(row, columns, strict=True))
    return f'<tr><th scope="row" {head}</th>{"".join(f"<td {one}</td>" for one in others)}</tr>'


def _cell(value: Cell, kind: Kind) -> str:
    """From the attributes on, without the closing tag. `data-v` has a count without its separators."""
    shown = text.cell(value, kind)
    is_word = kind is Kind.TEXT and len(shown) <= _LONGEST_WORD and not any(map(str.isspace, shown))
    plain = f' data-v="{escape(value)}"' if kind is Kind.COUNT and value is not None else ""
    return f'class="{kind}{" word" if is_word else ""}"{plain}><bdi>{escape(shown)}</bdi>'
