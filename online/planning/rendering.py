"""An answer on the terminal, as Markdown, or as JSON."""

from typing import TextIO

import orjson

from online.planning.answer import Answer, Sheet, plain

_WIDTH = 130


def to_json(answer: Answer) -> str:
    return orjson.dumps(plain(answer.document), option=orjson.OPT_INDENT_2).decode()


def to_markdown(answer: Answer) -> str:
    parts = [_sheet(sheet) for sheet in answer.sheets]
    if answer.notes:
        parts.append("\n".join(f"- {note}" for note in answer.notes))
    return "\n\n".join(parts)


def show(answer: Answer, file: TextIO) -> None:
    """With rich, where it is installed, which the planner's command line needs and its functions do not."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=file, highlight=False, width=None if file.isatty() else _WIDTH)
    for sheet in answer.sheets:
        has_head = any(sheet.head)
        table = Table(title=sheet.title, title_justify="left", title_style="bold", show_header=has_head)
        for place, name in enumerate(sheet.head):
            table.add_column(name, justify="left" if place == 0 or not has_head else "right", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(cell.replace("[", r"\[") for cell in row))
        console.print(table)
    for note in answer.notes:
        console.print(f"· {note}", markup=False)


def _sheet(sheet: Sheet) -> str:
    head = [_cell(name) for name in sheet.head]
    rule = ["---" if place == 0 or not any(sheet.head) else "---:" for place in range(len(head))]
    rows = [[_cell(cell) for cell in row] for row in sheet.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]
    return "\n".join([f"**{sheet.title}**", "", *lines])


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
