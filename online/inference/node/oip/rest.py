"""The protocol's REST routes: health, metadata, statistics and the repository; inference is `rest_infer`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from online.inference.node.oip import admin, describe
from online.inference.node.oip.errors import Invalid, ProtocolError, Unavailable
from online.inference.node.oip.infer import find, known_manifest
from online.inference.node.oip.parameters import flag
from online.inference.node.oip.rest_answers import error_response, json_response
from online.inference.node.oip.rest_body import ClientGone, read_body
from online.inference.node.oip.rest_codec import parse_object
from online.inference.node.oip.rest_infer import InferRoute
from online.inference.node.oip.tensors import shown
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings
from online.inference.node.version import Version

_MAX_DOCUMENT_BYTES = 1 << 20
_Answer = Callable[[Request], Awaitable[Response]]


def oip_routes(
    repository: Repository, settings: InferenceSettings, is_draining: Callable[[], bool]
) -> Sequence[BaseRoute]:
    """Inference first: routes are tried in order."""
    calls, infer = _Calls(repository, settings, is_draining), InferRoute(repository, settings)
    of_model = ("/v2/models/{model}/versions/{version}", "/v2/models/{model}")
    routes = [Route(f"{path}/infer", infer, methods=["POST"]) for path in of_model]
    gets: list[tuple[str, _Answer]] = [
        ("/v2", calls.server),
        ("/v2/health/live", calls.live),
        ("/v2/health/ready", calls.ready),
        ("/v2/models/stats", calls.all_statistics),
    ]
    for path in of_model:
        gets += [
            (path, calls.metadata),
            (f"{path}/ready", calls.model_ready),
            (f"{path}/config", calls.config),
            (f"{path}/stats", calls.statistics),
        ]
    posts: list[tuple[str, _Answer]] = [
        ("/v2/repository/index", calls.index),
        ("/v2/repository/models/{model}/load", calls.load),
        ("/v2/repository/models/{model}/unload", calls.unload),
    ]
    routes += [Route(path, _guarded(answer), methods=["GET"]) for path, answer in gets]
    return routes + [Route(path, _guarded(answer), methods=["POST"]) for path, answer in posts]


class _Calls:
    """One method a route; each may raise ProtocolError."""

    def __init__(
        self, repository: Repository, settings: InferenceSettings, is_draining: Callable[[], bool]
    ) -> None:
        self._repository, self._settings, self._is_draining = repository, settings, is_draining

    async def live(self, request: Request) -> Response:
        return Response()

    async def ready(self, request: Request) -> Response:
        ready = describe.is_server_ready(self._repository.versions, self._is_draining())
        return Response(status_code=200 if ready else Unavailable.http_status)

    async def server(self, request: Request) -> Response:
        return json_response(describe.server())

    async def metadata(self, request: Request) -> Response:
        version = self._version(request)
        manifest = known_manifest(version)
        return json_response(
            describe.model(manifest, describe.ready_versions(self._repository.versions, manifest.name))
        )

    async def model_ready(self, request: Request) -> Response:
        return Response(status_code=200 if self._version(request).is_ready else Unavailable.http_status)

    async def config(self, request: Request) -> Response:
        version = self._version(request)
        return json_response(describe.config(known_manifest(version), version.report.max_batch_rows))

    async def statistics(self, request: Request) -> Response:
        return json_response({"model_stats": [describe.statistics(self._version(request))]})

    async def all_statistics(self, request: Request) -> Response:
        named = [version for version in self._repository.versions if version.model]
        return json_response({"model_stats": [describe.statistics(version) for version in named]})

    async def index(self, request: Request) -> Response:
        only_ready = flag(await _document(request), "ready", "the request")
        return json_response(describe.index(self._repository.versions, only_ready))

    async def load(self, request: Request) -> Response:
        self._check_token(request)
        await admin.load(self._repository, request.path_params["model"], await _parameters(request))
        return Response()

    async def unload(self, request: Request) -> Response:
        self._check_token(request)
        await admin.unload(self._repository, request.path_params["model"], await _parameters(request))
        return Response()

    def _check_token(self, request: Request) -> None:
        admin.check_token(self._settings.admin_token, request.headers.get("authorization"))

    def _version(self, request: Request) -> Version:
        return find(self._repository, request.path_params["model"], request.path_params.get("version", ""))


def _guarded(answer: _Answer) -> _Answer:
    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except ProtocolError as error:
            return error_response(error)
        except ClientGone:
            return Response()

    return guarded


async def _document(request: Request) -> dict[str, Any]:
    """The body's object, which may be left out. Raises Invalid, TooLarge, ClientGone."""
    body = await read_body(request.receive, request.headers.get("content-length"), _MAX_DOCUMENT_BYTES)
    return parse_object(body) if body else {}


async def _parameters(request: Request) -> dict[str, Any]:
    parameters = (await _document(request)).get("parameters", {})
    if not isinstance(parameters, dict):
        raise Invalid(f"parameters must be an object, not {shown(parameters)}")
    return parameters
