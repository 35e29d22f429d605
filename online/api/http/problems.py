"""Errors as RFC 9457 problem documents, ours and those of the framework."""

import logging
from collections.abc import Mapping
from math import ceil

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from online.api.http.head import read_head, request_id_of
from online.errors import InvalidRequest, MethodNotAllowed, NotFound, ServingError
from schemas.names import is_unicode

log = logging.getLogger(__name__)

PROBLEM = "application/problem+json"
TYPE_PREFIX = "urn:hotset:problem:"
_MAX_ERRORS = 20


class InternalError(ServingError):
    """A mistake of ours; what it was is in the process's log, under the same request id."""


def problem(error: ServingError, request_id: str, entity: str | None = None) -> dict[str, object]:
    """As `schemas.http.Problem`, absent fields left out. `entity` is left out too where it is no valid Unicode."""
    document: dict[str, object] = {
        "type": f"{TYPE_PREFIX}{error.code}",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": printable(error.detail)[:2000],
    }
    if entity is not None and is_unicode(entity):
        document["entity"] = entity
    errors = error.context.get("errors")
    if isinstance(errors, list) and errors:
        document["errors"] = [
            {name: printable(text) for name, text in found.items()} for found in errors[:_MAX_ERRORS]
        ]
    document["request_id"] = request_id
    return document


def retry_after(error: ServingError) -> bytes | None:
    """The header's value: whole seconds, at least 1."""
    return None if error.retry_s is None else b"%d" % max(1, ceil(error.retry_s))


def printable(text: str) -> str:
    return text if is_unicode(text) else text.encode("utf-8", "backslashreplace").decode()


def add_problem_handlers(app: FastAPI) -> None:
    """For the routes that FastAPI serves itself."""

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = [
            {"field": ".".join(map(str, item["loc"])), "reason": str(item["msg"])} for item in error.errors()
        ]
        return _response(request, InvalidRequest("the request is not valid", errors=errors))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            return _response(request, MethodNotAllowed("this path has other methods"), error.headers)
        if error.status_code == 404:
            return _response(request, NotFound("no such path"))
        found = InvalidRequest(str(error.detail))
        return _response(request, found, error.headers)

    async def on_serving(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServingError)
        return _response(request, error, {"WWW-Authenticate": "Bearer"} if error.status == 401 else None)

    async def on_any(request: Request, error: Exception) -> Response:
        log.error("a request failed", exc_info=error)
        return _response(request, InternalError("the request failed"))

    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(ServingError, on_serving)
    app.add_exception_handler(Exception, on_any)


def _response(request: Request, error: ServingError, extra: Mapping[str, str] | None = None) -> Response:
    request_id = request_id_of(read_head(request.scope["headers"]).request_id)
    headers = {**(extra or {}), "X-Request-Id": request_id}
    if (seconds := retry_after(error)) is not None:
        headers["Retry-After"] = seconds.decode()
    body = orjson.dumps(problem(error, request_id))
    return Response(body, error.status, headers, media_type=PROBLEM)
