"""Bodies to items: parsed and checked. Same rules as `schemas.http`'s request models."""

import json
from typing import Never

import orjson

from online.api.answering.outcome import Item
from online.api.http.head import Head
from online.errors import (
    InvalidEntity,
    InvalidFeatures,
    InvalidRequest,
    ServingError,
    UnsupportedMediaType,
)
from schemas.http import MAX_BATCH_ENTITIES
from schemas.names import entity_bytes

_PREDICT_FIELDS = {"entity", "features"}


def check_media_type(head: Head) -> None:
    """A body without a content type is taken for JSON. Raises UnsupportedMediaType."""
    media_type = head.content_type.partition(b";")[0].strip().lower()
    if media_type and media_type != b"application/json" and not media_type.endswith(b"+json"):
        raise UnsupportedMediaType("send application/json")


def parse_json(body: bytes) -> object:
    """orjson first. What it refuses whole (half a surrogate pair, NaN, 1e999) the standard library reads, so that
    the field at fault can be named, and other items of a batch answered.

    Raises:
        InvalidRequest: not JSON.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body.decode("utf-8"))
    except UnicodeDecodeError:
        _bad("body", "is not UTF-8")
    except RecursionError:
        _bad("body", "is nested too deeply")
    except ValueError as error:
        _bad("body", f"is not JSON: {error}")


def parse_predict(document: object) -> Item:
    """Raises InvalidRequest, InvalidEntity, InvalidFeatures."""
    return _item(document, "")


def parse_batch(document: object) -> list[Item | ServingError]:
    """An item or what is wrong with it, for each.

    Raises:
        InvalidRequest: the batch itself is not one.
    """
    if not isinstance(document, dict) or set(document) != {"items"} or not isinstance(document["items"], list):
        _bad("items", "the body must be an object with one field, a list of entities or of predict requests")
    items = document["items"]
    if not 1 <= len(items) <= MAX_BATCH_ENTITIES:
        _bad("items", f"must be 1 to {MAX_BATCH_ENTITIES}, not {len(items)}")
    return [_item_or_error(item, f"items.{place}") for place, item in enumerate(items)]


def check_entity(entity: object, field: str = "entity") -> bytes:
    """The entity's bytes. Raises InvalidEntity."""
    if not isinstance(entity, str):
        reason = f"must be text, not {_kind(entity)}"
    else:
        try:
            return entity_bytes(entity)
        except ValueError as error:
            reason = str(error)
    raise InvalidEntity(f"{field}: {reason}", errors=[{"field": field, "reason": reason}])


def _item_or_error(given: object, place: str) -> Item | ServingError:
    try:
        if isinstance(given, str):
            return Item(given, check_entity(given, place))
        return _item(given, f"{place}.")
    except ServingError as error:
        entity = given if isinstance(given, str) else given.get("entity") if isinstance(given, dict) else None
        error.context["entity"] = entity if isinstance(entity, str) else None
        return error


def _item(given: object, prefix: str) -> Item:
    if not isinstance(given, dict):
        _bad(prefix.rstrip(".") or "body", "must be an object with `entity`, and `features` where you bring them")
    if unknown := given.keys() - _PREDICT_FIELDS:
        name = ascii(min(unknown))[1:-1][:80]
        _bad(f"{prefix}{name}", "unknown field; known are entity and features")
    if "entity" not in given:
        reason = "required, and missing"
        raise InvalidEntity(f"{prefix}entity: {reason}", errors=[{"field": f"{prefix}entity", "reason": reason}])
    raw = check_entity(given["entity"], f"{prefix}entity")
    features = given.get("features")
    if features is not None and not isinstance(features, dict):
        reason = f"must be an object of features by name, not {_kind(features)}"
        raise InvalidFeatures(
            f"{prefix}features: {reason}", errors=[{"field": f"{prefix}features", "reason": reason}]
        )
    return Item(given["entity"], raw, features)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case str():
            return "text"
    return "an object"


def _bad(field: str, reason: str) -> Never:
    raise InvalidRequest(f"{field}: {reason}", errors=[{"field": field, "reason": reason}])
