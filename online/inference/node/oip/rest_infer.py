"""The REST route of inference: bare ASGI on the raw body, without a framework's parsing on the way."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from online.inference.node.oip.errors import Invalid, ProtocolError
from online.inference.node.oip.infer import find, infer
from online.inference.node.oip.messages import InferAnswer, InferRequest
from online.inference.node.oip.rest_answers import error_response
from online.inference.node.oip.rest_body import ClientGone, accepted_encoding, decoded, deflate, read_body
from online.inference.node.oip.rest_codec import infer_body, parse_infer
from online.inference.node.oip.tensors import shown
from online.inference.node.oip.tracing import trace_of_header
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings
from online.tracing.context import HEADER

_JSON_BYTES = b"inference-header-content-length"
_LARGE_BYTES = 256 << 10  # above it a body is parsed, or compressed, in a thread


class InferRoute:
    """An ASGI application. A client that goes away withdraws its rows."""

    def __init__(self, repository: Repository, settings: InferenceSettings) -> None:
        self._repository, self._settings = repository, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        named: dict[str, str] = scope["path_params"]
        with suppress(ClientGone):
            try:
                version = find(self._repository, named["model"], named.get("version", ""))
                request = await self._request(headers, receive)
                trace = trace_of_header(headers.get(HEADER)) if self._settings.otlp_url else None
                work = infer(version, request, self._settings.default_timeout_s, trace=trace)
                answer = await _unless_gone(work, receive)
                parts, json_bytes = infer_body(answer, request)
            except ProtocolError as error:
                await error_response(error)(scope, receive, send)
            else:
                await _send(b"".join(parts), json_bytes, _text(headers.get(b"accept-encoding")), send)

    async def _request(self, headers: dict[bytes, bytes], receive: Receive) -> InferRequest:
        limit = self._settings.max_body_bytes
        body = await read_body(receive, _text(headers.get(b"content-length")), limit)
        if (encoding := headers.get(b"content-encoding")) is not None:
            body = await decoded(body, _text(encoding), limit)
        json_bytes = _json_bytes(headers.get(_JSON_BYTES))
        if len(body) > _LARGE_BYTES:
            return await asyncio.to_thread(parse_infer, body, json_bytes)
        return parse_infer(body, json_bytes)


async def _unless_gone(work: Coroutine[Any, Any, InferAnswer], receive: Receive) -> InferAnswer:
    """The result of `work`, which is cancelled when the client disconnects. Raises ClientGone."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(body: bytes, json_bytes: int | None, accept: str | None, send: Send) -> None:
    headers = [(b"content-type", b"application/json" if json_bytes is None else b"application/octet-stream")]
    if json_bytes is not None:
        headers.append((_JSON_BYTES, b"%d" % json_bytes))
    if (encoding := accepted_encoding(accept)) is not None:
        large = len(body) > _LARGE_BYTES
        body = await asyncio.to_thread(deflate, body, encoding) if large else deflate(body, encoding)
        headers += [(b"content-encoding", encoding.encode("ascii")), (b"vary", b"accept-encoding")]
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _json_bytes(header: bytes | None) -> int | None:
    """Raises Invalid."""
    if header is None:
        return None
    if not header.isdigit() or len(header) > 18:
        raise Invalid(f"Inference-Header-Content-Length must be a number of bytes, not {shown(_text(header))}")
    return int(header)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")
