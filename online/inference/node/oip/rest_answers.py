"""Answers of the REST routes other than inference's: JSON, and errors as `{"error": …}`.

Never compressed: `tritonclient` would not inflate them.
"""

from collections.abc import Mapping
from math import ceil

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from online.inference.node.oip.errors import Failed, ProtocolError


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(document), status, headers, "application/json")


def error_response(error: ProtocolError) -> Response:
    headers = None if error.retry_after_s is None else {"retry-after": str(max(1, ceil(error.retry_after_s)))}
    return json_response({"error": error.message}, error.http_status, headers)


def is_of_the_protocol(path: str) -> bool:
    return path == "/v2" or path.startswith("/v2/")


def unexpected_error(request: Request, error: Exception) -> Response:
    """Of a mistake of ours, which the server logs; its text is not for callers."""
    return error_response(Failed("internal error"))


def router_error(request: Request, error: HTTPException) -> Response:
    """What the router itself refuses: an unknown path, or a method that the path does not know."""
    return json_response({"error": f"{error.detail}: {request.method}"}, error.status_code, error.headers)
