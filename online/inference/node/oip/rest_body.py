"""Bytes of a REST request before they mean anything: read and inflated within a limit; answers deflated."""

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from online.inference.node.oip.errors import Invalid, TooLarge, UnknownEncoding
from online.inference.node.oip.tensors import shown

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

# wbits of zlib: `deflate` is its own format in HTTP (RFC 9110), not the bare stream.
_WBITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_SMALL_BYTES = 64 << 10  # inflated in the event loop; a larger body has a thread
_LEVEL = 1


class ClientGone(Exception):
    """The client disconnected before its request was whole."""


async def read_body(receive: Receive, content_length: str | None, max_bytes: int) -> bytes:
    """Raises TooLarge before more than the limit is held, whether a length was announced or not; ClientGone."""
    if content_length is not None and content_length.isdigit() and int(content_length) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def decoded(body: bytes, encoding: str | None, max_bytes: int) -> bytes:
    """The body without its `Content-Encoding`. Raises UnknownEncoding, TooLarge, Invalid."""
    name = (encoding or "identity").strip().lower()
    if name == "identity":
        return body
    if name not in _WBITS:
        raise UnknownEncoding(f"Content-Encoding {shown(encoding)} is not known; gzip and deflate are")
    if len(body) <= _SMALL_BYTES:
        return inflate(body, name, max_bytes)
    return await asyncio.to_thread(inflate, body, name, max_bytes)


def inflate(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Stops at the limit, however far the body would expand. Raises TooLarge, Invalid."""
    inflater = zlib.decompressobj(_WBITS[encoding])
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise Invalid(f"the body is not {encoding}: {error}") from None
    if len(plain) > max_bytes:
        raise _too_large(max_bytes)
    if not inflater.eof or inflater.unused_data:
        raise Invalid(f"the {encoding} body is {'cut short' if not inflater.eof else 'followed by other bytes'}")
    return plain


def deflate(body: bytes, encoding: str) -> bytes:
    """`encoding`: as `accepted_encoding` gives it."""
    return gzip.compress(body, _LEVEL, mtime=0) if encoding == "gzip" else zlib.compress(body, _LEVEL)


def accepted_encoding(accept: str | None) -> str | None:
    """Of gzip and deflate the one that `Accept-Encoding` weighs more, gzip of equals; None for neither."""
    if not accept:
        return None
    best, best_weight = None, 0.0
    for item in accept.lower().split(","):
        name, _, rest = item.partition(";")
        weight = _weight(rest)
        name = name.strip()
        if name in ("gzip", "deflate") and (
            weight > best_weight or (weight == best_weight > 0 and name == "gzip")
        ):
            best, best_weight = name, weight
    return best


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"a body may have {max_bytes} bytes")
