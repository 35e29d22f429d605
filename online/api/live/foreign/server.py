"""One foreign server: what of it is ready, and rows sent to it over HTTP."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import inf

import aiohttp
import orjson
from yarl import URL

from online.api.live.foreign.target import Target
from online.errors import DeadlineExceeded, LiveUnavailable, ModelError, Overloaded, ServingError
from online.tracing.context import HEADER, TraceContext, header_of
from schemas.open_inference import (
    BINARY_EXTENSION,
    HEADER_LENGTH,
    BadAnswer,
    answer_outputs,
    error_text,
    request_body,
)
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

_MAX_ANSWER_BYTES = 64 << 20
_POLL_TIMEOUT_S = 2.0
_VERIFY_TIMEOUT_S = 10.0
# A server whose model is another than the bundle's is asked again so often, as it may be put right.
_VERIFY_AGAIN_S = 10.0
_LATE = (HTTPStatus.REQUEST_TIMEOUT, 499, HTTPStatus.GATEWAY_TIMEOUT)
# Some servers say "not ready" and "no such model" by these, so readiness is looked at again.
_PERHAPS_UNREADY = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


class NotExecuted(Exception):
    """The server certainly did not do it: another may. `error` is what a caller is told where there is none."""

    def __init__(self, error: ServingError) -> None:
        super().__init__(str(error))
        self.error = error


class ForeignServer:
    """`outstanding`: requests that are not answered. `on_change` is called when a version becomes warm or not."""

    def __init__(self, url: str, session: aiohttp.ClientSession, on_change: Callable[[], None]) -> None:
        self.url = url
        self._session, self._on_change = session, on_change
        self._loop = asyncio.get_running_loop()
        self._warm: set[str] = set()
        self._verify_at_s: dict[str, float] = {}
        self._speaks_binary = False
        self.outstanding = 0

    def is_warm(self, digest: str) -> bool:
        return digest in self._warm

    async def poll(self, targets: Mapping[str, Target]) -> None:
        """Looks at what is ready; a version counts as warm once its golden rows came out right."""
        if self._warm - targets.keys():
            self._warm &= targets.keys()
        await asyncio.gather(*(self._poll(target) for target in targets.values()))

    async def infer(
        self, target: Target, tensors: list[Tensor], deadline_s: float, trace: TraceContext | None = None
    ) -> Float32Array:
        """(rows, K) raw outputs. Given up, by cancellation or at the deadline, its connection is closed.

        Raises:
            NotExecuted, LiveUnavailable, Overloaded, DeadlineExceeded, ModelError.
        """
        timeout_us = max(1, int((deadline_s - self._loop.time()) * 1e6))
        body = request_body(target.inputs, tensors, target.wanted, timeout_us, self._speaks_binary)
        headers = body.headers if trace is None else {**body.headers, HEADER.decode(): header_of(trace)}
        try:
            async with (
                asyncio.timeout_at(deadline_s),
                self._session.post(self._url(target, "infer"), data=body.content, headers=headers) as answer,
            ):
                content = await _read(answer)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._lose(f"cannot connect: {error}")
            raise NotExecuted(LiveUnavailable("the server cannot be reached")) from None
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed before the model answered") from None
        except BadAnswer as error:
            raise self._failed(target, str(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            log.warning("a foreign server broke off", extra={"url": self.url, "error": str(error)})
            raise LiveUnavailable("the server was lost while it worked on this") from None
        if answer.status != HTTPStatus.OK:
            raise await self._refusal(target, answer, content, deadline_s)
        try:
            header_length = answer.headers.get(HEADER_LENGTH)
            return answer_outputs(
                content, header_length, len(tensors[0]), target.wanted, target.outputs, target.columns
            )
        except BadAnswer as error:
            raise self._failed(target, str(error)) from None

    async def _refusal(
        self, target: Target, answer: aiohttp.ClientResponse, content: bytes, deadline_s: float
    ) -> NotExecuted | ServingError:
        status, told = answer.status, error_text(content)
        retry_after = answer.headers.get("Retry-After", "")
        retry_after_s = float(retry_after) if retry_after.isdecimal() else None
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            if "Retry-After" in answer.headers:
                return NotExecuted(Overloaded("the servers are over capacity", retry_after_s=retry_after_s))
            log.warning("a foreign server is unavailable", extra={"url": self.url, "reason": told})
            return LiveUnavailable("the server is unavailable")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Overloaded("the server is over capacity", retry_after_s=retry_after_s)
        if status in _LATE:
            return DeadlineExceeded("the deadline passed before the model answered")
        if status == HTTPStatus.BAD_GATEWAY:
            return LiveUnavailable("the server cannot be reached")
        if status in _PERHAPS_UNREADY and not await self._is_ready(target, deadline_s):
            self._set_warm(target, False, told)
            return LiveUnavailable("the server does not have this version ready")
        return self._failed(target, f"status {status}: {told}")

    def _failed(self, target: Target, reason: str) -> ModelError:
        extra = {"url": self.url, "model": target.model, "version": target.version, "reason": reason}
        log.error("a foreign server's model failed", extra=extra)
        return ModelError("the model could not compute this")

    async def _poll(self, target: Target) -> None:
        if not await self._is_ready(target):
            self._verify_at_s.pop(target.digest, None)
            self._set_warm(target, False, "it is not ready")
        elif target.digest not in self._warm and self._loop.time() >= self._verify_at_s.get(target.digest, 0.0):
            self._verify_at_s[target.digest] = self._loop.time() + _VERIFY_AGAIN_S
            self._speaks_binary = await self._has_binary()
            problem = await self._verify(target)
            if problem is not None:
                extra = {"url": self.url, "model": target.model, "version": target.version, "reason": problem}
                log.error("a foreign server's model is not the bundle's: it is not used", extra=extra)
            self._set_warm(target, problem is None, problem or "")

    async def _verify(self, target: Target) -> str | None:
        """Whether the server computes what the bundle does; what is wrong, in words."""
        deadline_s = self._loop.time() + _VERIFY_TIMEOUT_S
        try:
            for batch in target.golden():
                outputs = await self.infer(target, batch.tensors, deadline_s)
                if (problem := target.misfit(batch, outputs)) is not None:
                    return problem
        except (NotExecuted, ServingError) as error:
            return f"the golden rows were not answered: {error}"
        return None

    async def _is_ready(self, target: Target, deadline_s: float = inf) -> bool:
        try:
            async with (
                asyncio.timeout_at(min(self._loop.time() + _POLL_TIMEOUT_S, deadline_s)),
                self._session.get(self._url(target, "ready")) as answer,
            ):
                await _read(answer)
                return answer.status == HTTPStatus.OK
        except (aiohttp.ClientError, OSError, BadAnswer):
            return False

    async def _has_binary(self) -> bool:
        """Whether the server says that it takes binary tensors; JSON is understood by all."""
        try:
            async with (
                asyncio.timeout(_POLL_TIMEOUT_S),
                self._session.get(URL(f"{self.url}/v2", encoded=True)) as answer,
            ):
                told = orjson.loads(await _read(answer))
                return BINARY_EXTENSION in told.get("extensions", ())
        except (aiohttp.ClientError, OSError, ValueError, AttributeError, TypeError):
            return False

    def _lose(self, reason: str) -> None:
        """Nothing is warm until a poll says so again; the next server at this address may be another."""
        self._verify_at_s.clear()
        if self._warm:
            log.warning("a foreign server is lost", extra={"url": self.url, "reason": reason})
            self._warm.clear()
            self._on_change()

    def _set_warm(self, target: Target, is_warm: bool, reason: str) -> None:
        if is_warm == (target.digest in self._warm):
            return
        extra = {"url": self.url, "model": target.model, "version": target.version}
        if is_warm:
            self._warm.add(target.digest)
            log.info("a foreign server is ready", extra={**extra, "binary": self._speaks_binary})
        else:
            self._warm.discard(target.digest)
            log.warning("a foreign server is not ready", extra={**extra, "reason": reason})
        self._on_change()

    def _url(self, target: Target, what: str) -> URL:
        return URL(f"{self.url}{target.path}/{what}", encoded=True)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """Raises BadAnswer where it is longer than any answer could be."""
    if (answer.content_length or 0) > _MAX_ANSWER_BYTES:
        raise BadAnswer(f"an answer of {answer.content_length} bytes")
    if answer.content_length is not None:
        return await answer.read()
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > _MAX_ANSWER_BYTES:
            raise BadAnswer(f"an answer of over {_MAX_ANSWER_BYTES} bytes")
    return bytes(content)
