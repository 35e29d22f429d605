"""`POST /v1/models/{model}/predictions:invalidate`: an administrator says that stored answers no longer count."""

import asyncio
import hmac
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from fastapi import FastAPI, Request
from pydantic import ValidationError

from online.api.http.body import check_media_type, parse_json
from online.api.http.documents import rfc3339
from online.api.http.head import read_head
from online.errors import AdminDisabled, BodyTooLarge, InvalidRequest, Unauthorised, UnknownModel
from schemas.http import Invalidated, InvalidateRequest, Problem

log = logging.getLogger(__name__)

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No token, or another."},
    403: {"model": Problem, "description": "Administration is switched off: no token is set."},
    404: {"model": Problem, "description": "Unknown model."},
    413: {"model": Problem, "description": "The body is too large."},
    415: {"model": Problem, "description": "The body is not JSON."},
    422: {"model": Problem, "description": "The request is not valid; `errors` names the fields."},
    503: {
        "model": Problem,
        "description": "Redis did not confirm it, or too many entities are invalidated; it may be asked again.",
    },
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/InvalidateRequest"}}},
    },
    "security": [{"adminToken": []}],
}


class Invalidator(Protocol):
    """What takes invalidations. Raises InvalidationsFull, StoreUnavailable."""

    async def add(self, model: str, entities: Sequence[bytes]) -> int: ...


def add_invalidation(
    app: FastAPI,
    models: Sequence[str],
    token_file: Path | None,
    max_body_bytes: int,
    invalidator: Callable[[], Invalidator],
) -> None:
    """Adds the end point; `invalidator` is called once the service runs."""

    @app.post(
        "/v1/models/{model}/predictions:invalidate",
        tags=["administration"],
        responses=_PROBLEMS,
        openapi_extra=_BODY,
    )
    async def invalidate(model: str, request: Request) -> Invalidated:
        """Stored answers of these entities, of all versions, are misses from now on: at once in the worker that
        took the request, within a second in the others. Answers computed later count again."""
        given = request.headers.get("authorization")
        await asyncio.to_thread(check_token, token_file, given)
        if model not in models:
            raise UnknownModel("no such model")
        check_media_type(read_head(request.scope["headers"]))
        entities = _entities(await _read_body(request, max_body_bytes))
        at_ms = await invalidator().add(model, entities)
        log.info("entities are invalidated", extra={"model": model, "entities": len(entities), "at_ms": at_ms})
        return Invalidated(entities=len(entities), at=rfc3339(at_ms))


def check_token(token_file: Path | None, authorization: str | None) -> None:
    """`authorization`: as the header has it. The file is read each time, so that a token can be replaced.

    Raises:
        AdminDisabled: no file is set, or it holds no token.
        Unauthorised: another token, or none.
    """
    if token_file is None:
        raise AdminDisabled("API_ADMIN_TOKEN_FILE names no file")
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        log.error("the file of API_ADMIN_TOKEN_FILE cannot be read", extra={"error": str(error)})
        token = b""
    if not token:
        raise AdminDisabled("the file of API_ADMIN_TOKEN_FILE holds no token")
    scheme, _, given = (authorization or "").partition(" ")
    # In a time that does not tell where they differ.
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token)
    if scheme.lower() != "bearer" or not is_same:
        raise Unauthorised("send the token as `Authorization: Bearer TOKEN`")


async def _read_body(request: Request, max_bytes: int) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLarge(f"a body may have {max_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _entities(body: bytes) -> list[bytes]:
    """The different ones, in order. Raises InvalidRequest."""
    try:
        asked = InvalidateRequest.model_validate(parse_json(body))
    except ValidationError as error:
        errors = [
            {"field": ".".join(map(str, item["loc"])) or "body", "reason": item["msg"]}
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidRequest("the request is not valid", errors=errors) from None
    return list(dict.fromkeys(entity.encode() for entity in asked.entities))
