"""The node's HTTP: health, metrics, profile. Served in the node's own loop, which never waits for a worker."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST

from online.inference.node import view
from online.inference.node.metrics import NodeMetrics
from online.inference.node.version import Version


def build_app(versions: Sequence[Version], device: str, is_draining: Callable[[], bool]) -> FastAPI:
    app = FastAPI(title="Hotset inference node", docs_url="/docs", redoc_url=None)
    metrics = NodeMetrics(versions, device)

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
