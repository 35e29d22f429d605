"""The FastAPI application of one worker. `build_app` is called in the worker's process, by uvicorn."""

import asyncio
import importlib.util
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.staticfiles import StaticFiles

from online.api.health import readiness
from online.api.http.documents import rfc3339
from online.api.http.invalidate import add_invalidation
from online.api.http.openapi import with_predictions
from online.api.http.predictions import Predictions
from online.api.http.problems import add_problem_handlers
from online.api.metrics.series import scrape
from online.api.service import Service
from online.api.settings import ApiSettings
from online.errors import NotReady, UnknownModel
from online.logs import configure_logs
from schemas.http import ModelInformation, Problem

TITLE = "Hotset"
VERSION = "1"
_ASSETS = "/docs/assets"


class Api(FastAPI):
    """Everything but predictions, which the server's protocol hands to `handler`; described here all the same."""

    service: Service

    @property
    def handler(self) -> Predictions:
        """What `PredictionProtocol` gives predictions to."""
        return self.service.predictions

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = with_predictions(super().openapi())
        return self.openapi_schema


def build_app(settings: ApiSettings, parent: int) -> Api:
    """Starts nothing before the application's lifespan does.

    Args:
        parent: process id of whoever started this worker, with whom it ends.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        assert isinstance(app, Api)
        async with Service(settings, parent) as app.service:
            yield

    configure_logs("api", settings.log_level)
    logging.getLogger("uvicorn.access").propagate = False  # the request log has every answer already
    app = Api(title=TITLE, version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    add_problem_handlers(app)
    _add_routes(app)
    add_invalidation(
        *(app, settings.models, settings.admin_token_file, settings.max_body_bytes),
        lambda: app.service.invalidations,
    )
    _add_docs(app)
    return app


def _add_routes(app: Api) -> None:
    @app.get("/v1/models/{model}", tags=["models"], responses={404: {"model": Problem}, 503: {"model": Problem}})
    async def model_information(model: str) -> ModelInformation:
        """What answers for a model now."""
        if model not in app.service.settings.models:
            app.service.buffer.refuse(UnknownModel.code)
            raise UnknownModel("no such model")
        view = app.service.routes.views.get(model)
        if view is None:
            raise NotReady("no version of this model is live yet")
        generation, document = view.stable.generation, view.document
        return ModelInformation(
            model=model,
            stable=document.stable,
            versions=sorted(document.versions),
            generation=generation.id if generation else None,
            rows=generation.rows if generation else None,
            computed_at=rfc3339(generation.computed_at_ms) if generation else None,
            features=list(view.stable.manifest.feature_names),
            epoch=document.epoch,
            revision=document.revision,
        )

    @app.get("/healthz", tags=["operation"])
    async def healthz() -> dict[str, str]:
        """Alive: the event loop turns."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["operation"], responses={503: {"model": dict[str, Any]}})
    async def readyz() -> Response:
        """Ready to answer for at least one model; the body says how each stands."""
        is_ready, told = readiness(app.service)
        return JSONResponse(told, 200 if is_ready else 503)

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Prometheus metrics of all workers."""
        text = await asyncio.to_thread(scrape, app.service.settings.metrics_dir)
        return Response(text, media_type=CONTENT_TYPE_LATEST)


def _add_docs(app: Api) -> None:
    """Swagger's files come from a package, so that the page works without the internet."""
    found = importlib.util.find_spec("fastapi_offline")
    places = found.submodule_search_locations if found else None
    if places:
        app.mount(_ASSETS, StaticFiles(directory=Path(places[0]) / "static"))

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        if not places:
            return HTMLResponse(
                "<p>The page needs the package <code>fastapi-offline</code>."
                ' The document itself: <a href="/openapi.json">openapi.json</a></p>'
            )
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title=TITLE,
            swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{_ASSETS}/favicon.png",
        )
