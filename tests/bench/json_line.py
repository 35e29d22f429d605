"""The last line of every benchmark: its document as JSON."""

from math import isfinite

import orjson


def json_line(document: dict[str, object]) -> bytes:
    """Numbers are rounded to four digits behind the point, more than can be measured; not finite is null."""
    return orjson.dumps(_plain(document))


def _plain(value: object) -> object:
    match value:
        case float():
            return round(value, 4) if isfinite(value) else None
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return [_plain(one) for one in value]
    return value
