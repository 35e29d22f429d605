"""Which columns of somebody's log name the entity and the time, when nobody said so; the guess is always told."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from batch_scoring.hotset.trace import BadLog

_ENTITY = (
    *("entity", "entity_id", "entityid", "key", "obj_id", "object_id", "item", "item_id", "itemid", "product_id"),
    *("productid", "product", "stockcode", "sku", "asin", "user_id", "userid", "customer_id", "id"),
)
_TIME = ("time", "timestamp", "ts", "datetime", "event_time", "eventtime", "created_at", "invoicedate", "date")
_ORDER = ("order", "seq", "sequence", "position", "offset", "n", "index", "t")
# The largest number that a unit's epoch can be in this century, in seconds.
_CENTURY_S = 4.2e9
_EPOCH_FROM_S = 9e8


@dataclass(frozen=True)
class Columns:
    """Names of columns. Without `time` and `order`, rows are in the order of the file.

    Attributes:
        said: in words, what was guessed; empty where all was given.
        id: of requests; never guessed, since rows would be set aside by it.
    """

    entity: str
    time: str | None
    order: str | None
    said: str = ""
    id: str | None = None


def find_columns(
    types: Mapping[str, pa.DataType],
    entity: str | None,
    time: str | None,
    order: str | None,
    is_text: bool,
    request_id: str | None = None,
) -> Columns:
    """Completes what was given from the names and types of the columns.

    Args:
        is_text: the types are all text, as a CSV file's.

    Raises BadLog where a column does not exist or nothing looks like an entity.
    """
    for given in (entity, time, order, request_id):
        if given is not None and given not in types:
            raise BadLog(f"the log has no column {given}: it has {', '.join(types)}")
    if time and order:
        raise BadLog("give a time or an order, not both")
    said = []
    if entity is None:
        entity = _guess_entity(types, {time, order, request_id})
        said.append(f"entity is column {entity}")
    if time is None and order is None:
        time, order = _guess_moment(types, entity, is_text)
        moment = (
            f"time is column {time}" if time else f"order is column {order}" if order else "in the file's order"
        )
        said.append(moment)
    return Columns(entity, time, order, "; ".join(said), request_id)


def _guess_entity(types: Mapping[str, pa.DataType], taken: set[str | None]) -> str:
    free = [name for name in types if name not in taken]
    if len(free) == 1:
        return free[0]
    by_lower = {name.lower(): name for name in free}
    found = next((by_lower[known] for known in _ENTITY if known in by_lower), None)
    if found is None:
        ids = [name for name in free if name.lower().endswith(("_id", "id", "code", "key"))]
        found = ids[0] if len(ids) == 1 else None
    if found is None:
        raise BadLog(f"which column names the entity? give --entity-column, one of {', '.join(free)}")
    return found


def _guess_moment(types: Mapping[str, pa.DataType], entity: str, is_text: bool) -> tuple[str | None, str | None]:
    free = {name.lower(): name for name in types if name != entity}
    for known in _TIME:
        if known in free and (is_text or is_moment(types[free[known]])):
            return free[known], None
    for name in free.values():
        if pa.types.is_timestamp(types[name]) or pa.types.is_date(types[name]):
            return name, None
    found = next((free[known] for known in _ORDER if known in free), None)
    return None, found if found and (is_text or is_moment(types[found])) else None


def is_moment(kind: pa.DataType) -> bool:
    """Whether values of a type can be times or places in an order."""
    return bool(
        pa.types.is_timestamp(kind)
        or pa.types.is_date(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or is_text_type(kind)
    )


def is_text_type(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def epoch_divisor(largest: float) -> float | None:
    """By what numbers of an epoch are divided to give seconds; None where they are too small to be of an epoch."""
    for divisor in (1.0, 1e3, 1e6, 1e9):
        if _EPOCH_FROM_S <= largest / divisor <= _CENTURY_S:
            return divisor
    return None
