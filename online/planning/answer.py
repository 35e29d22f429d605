"""What a question is answered with: a document with units in its names, and tables and notes for people. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan

Row = tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """A table. The first column is text, the others are numbers."""

    title: str
    head: Row
    rows: Sequence[Row]


@dataclass(frozen=True)
class Answer:
    """`document` is what `--json` prints; `sheets` and `notes` are the same in words."""

    document: dict[str, object]
    sheets: Sequence[Sheet]
    notes: Sequence[str] = field(default_factory=tuple)


def facts(title: str, pairs: Sequence[tuple[str, str]]) -> Sheet:
    return Sheet(title, ("", ""), pairs)


def number(value: float, digits: int = 4) -> str:
    """To so many significant digits, in full: 1,234 or 0.01235; nothing where there is none."""
    if isnan(value):
        return "–"
    if not isfinite(value):
        return "∞"
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if "e" in text or abs(value) >= 1000:
        rounded = float(text)
        return f"{rounded:,.0f}" if abs(rounded) >= 1 else f"{rounded:.12f}".rstrip("0")
    return text


def milliseconds(value: float) -> str:
    return "–" if isnan(value) else f"{value:,.1f}"


def percent(value: float) -> str:
    return "–" if isnan(value) else f"{value:.0%}" if abs(value) >= 0.1 or value == 0 else f"{value:.1%}"


def dollars(value: float) -> str:
    """Cents where they matter."""
    if isnan(value):
        return "–"
    return (
        f"${value:,.0f}" if abs(value) >= 100 else f"${value:,.2f}" if abs(value) >= 0.1 else f"${number(value)}"
    )


def yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def plain(value: object) -> object:
    """For JSON: floats to ten significant digits, null for what is not finite, tuples as lists."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return float(f"{value:.10g}") if isfinite(value) else None
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
    return str(value)
