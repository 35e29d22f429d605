"""Numbers and times as the pages write them. Pure."""

from datetime import datetime

from online.monitor.tables import Cell, Kind

NONE = "–"
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """One decimal; what is not quite nothing or all never reads as 0.0 % or 100.0 %."""
    if value is None:
        return NONE
    if 0 < value < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= value < 1:
        return "> 99.9 %"
    return f"{100 * value:.1f} %"


def ms(value: float | None) -> str:
    """Three significant digits."""
    if value is None:
        return NONE
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{decimals}f}"


def number(value: float | None) -> str:
    """One decimal; two significant digits of what is less than 1, so that little never reads as nothing."""
    if value is None:
        return NONE
    if 0 < abs(value) < 0.001:
        return "< 0.001" if value > 0 else "> -0.001"
    if 0 < abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def moment(value: datetime) -> str:
    """To the second where it has seconds, else to the minute; always UTC."""
    return f"{value:%Y-%m-%d %H:%M:%S}" if value.second or value.microsecond else f"{value:%Y-%m-%d %H:%M}"


def age(seconds: float | None) -> str:
    """Two units at most, the second only where it is not nothing: `14 h 32 min`."""
    if seconds is None:
        return NONE
    whole = max(0, int(seconds))
    for size, unit, part, part_unit in _UNITS:
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {part_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def cell(value: Cell, kind: Kind) -> str:
    """A table's cell as text. Text stays byte for byte what it is."""
    if value is None:
        return NONE
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, str):
        return value
    shape = {Kind.COUNT: count, Kind.SHARE: share, Kind.MS: ms, Kind.NUMBER: number}.get(kind)
    return shape(value) if shape else str(value)
