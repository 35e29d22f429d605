"""The node's HTTP: health, metrics, profile, and the public protocol; its loop never waits for a worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from online.inference.node import view
from online.inference.node.metrics import NodeMetrics
from online.inference.node.oip.rest import oip_routes
from online.inference.node.oip.rest_answers import is_of_the_protocol, router_error, unexpected_error
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings


def build_app(repository: Repository, settings: InferenceSettings, is_draining: Callable[[], bool]) -> FastAPI:
    versions, device = repository.versions, settings.device
    app = FastAPI(title="Hotset inference node", docs_url="/docs", redoc_url=None)
    metrics = NodeMetrics(versions, device)
    app.router.routes.extend(oip_routes(repository, settings, is_draining))
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, unexpected_error)

    @app.get("/healthz", summary="The process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz", summary="At least one version is warm, and the node is not draining")
    async def readyz() -> JSONResponse:
        is_ready, body = view.readiness(is_draining(), versions)
        return JSONResponse(body, 200 if is_ready else 503)

    @app.get("/metrics", summary="Prometheus text", response_class=Response)
    async def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/profile", summary="Measured T(b) of each version, and its fit")
    async def profile() -> dict[str, object]:
        return view.profile(versions, device)

    return app


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if is_of_the_protocol(request.url.path):
        return router_error(request, error)
    return await http_exception_handler(request, error)


class HttpServer(uvicorn.Server):
    """Leaves signals to the node: it goes on answering `/readyz` with 503 while the node drains."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: FastAPI) -> HttpServer:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", http="httptools", timeout_graceful_shutdown=1
    )
    return HttpServer(config)
