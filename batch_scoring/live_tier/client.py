"""Calls of a replica by the Open Inference Protocol v2 over HTTP: rows through a version, and loading one.

Numbers go and come as binary tensors, so that every float32 is the same on both sides.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx
import orjson

from schemas.manifest import Manifest
from schemas.open_inference import HEADER_LENGTH, BadAnswer, answer_outputs, error_text, request_body
from schemas.replicas import Replica, Wanted
from schemas.wire import Float32Array, Tensor

_BUSY = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_CONNECT_S = 2.0
# 0 and 1 go before 2 and more: a check never makes a client's request wait for its batch.
_LOW_PRIORITY = 2
_PARAMETERS: Mapping[str, object] = {"priority": _LOW_PRIORITY, "raw_outputs": True, "binary_data_output": True}


class ReplicaFault(Exception):
    """What a replica did not do, in words."""


class Unavailable(ReplicaFault):
    """Gone, busy or too slow: another replica, or this one later, may do it. `retry_after_s`: when, if it said."""

    def __init__(self, words: str, retry_after_s: float | None = None) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s


class Rejected(ReplicaFault):
    """It will not do it, now or later; `status` is of HTTP."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


class LiveTierClient:
    """Use as `with`. One for each thread of work; connections are kept while it is open."""

    def __init__(self) -> None:
        # The environment may name a proxy, which has no way to the replicas, and must not see the token.
        self._http = httpx.Client(trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._http.close()

    def raw_outputs(
        self, replica: Replica, wanted: Wanted, manifest: Manifest, tensors: Mapping[str, Tensor], timeout_s: float
    ) -> Float32Array:
        """(rows, N) outputs as the program gives them, before calibration, computed at low priority.

        Args:
            tensors: (rows, width) of each input, by name.

        Raises:
            Unavailable, Rejected.
        """
        given: Sequence[Tensor] = [tensors[tensor.name] for tensor in manifest.inputs]
        names, outputs = [tensor.name for tensor in manifest.inputs], manifest.output_names
        body = request_body(names, given, outputs, int(timeout_s * 1e6), True, _PARAMETERS)
        path = f"/v2/models/{quote(wanted.model)}/versions/{quote(wanted.version)}/infer"
        answer = self._post(replica, path, body.content, body.headers, timeout_s)
        length = answer.headers.get(HEADER_LENGTH)
        try:
            width = manifest.output.model_width
            return answer_outputs(answer.content, length, len(given[0]), outputs, outputs, width)
        except BadAnswer as error:
            raise Rejected(f"an answer that cannot be read: {error}", answer.status_code) from None

    def load(self, replica: Replica, wanted: Wanted, bundle_url: str, token: str, timeout_s: float) -> None:
        """Returns when the version is warm there; one that is warm already is so at once.

        Raises:
            Unavailable, Rejected.
        """
        bundle = {"parameters": {"bundle": f"{bundle_url}@{wanted.digest}"}}
        path = f"/v2/repository/models/{quote(wanted.model)}/load"
        self._post(replica, path, orjson.dumps(bundle), {"Authorization": f"Bearer {token}"}, timeout_s)

    def _post(
        self, replica: Replica, path: str, content: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> httpx.Response:
        assert replica.http is not None, "only replicas that say where they listen are called"
        # As bytes: httpx takes no text beyond ASCII, and a token may be any.
        encoded = {name.encode(): value.encode() for name, value in headers.items()}
        timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
        try:
            url = httpx.URL(f"http://{replica.http}{path}")
            answer = self._http.post(url, content=content, headers=encoded, timeout=timeout)
        except httpx.TimeoutException as error:
            raise Unavailable(f"no answer within {timeout_s:g} s ({type(error).__name__})") from None
        except httpx.RequestError as error:
            raise Unavailable(f"cannot be reached at {replica.http}: {error}") from None
        except httpx.InvalidURL as error:
            raise Rejected(f"announces {replica.http!r}, which is no address: {error}", 0) from None
        if answer.status_code == HTTPStatus.OK:
            return answer
        words = f"status {answer.status_code}: {error_text(answer.content)}"
        if answer.status_code in _BUSY:
            raise Unavailable(words, _retry_after_s(answer))
        raise Rejected(words, answer.status_code)


def _retry_after_s(answer: httpx.Response) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() else None
