"""The site's HTTP: pages as HTML, CSV and JSON, static files, health, metrics. Reads only; GET and HEAD only."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import orjson
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from online.errors import InvalidRequest, ServingError, UnknownModel
from online.monitor.headers import SECURITY, SecurityHeaders
from online.monitor.metrics import SiteMetrics
from online.monitor.pages import Page, Report
from online.monitor.registry import PAGES
from online.monitor.rendering import STATIC, Renderer
from online.monitor.reports import Reports
from online.monitor.requestlog.keeper import keep
from online.monitor.settings import MonitorSettings
from online.monitor.sources import Sources
from online.monitor.tables import all_to_csv, to_csv
from online.monitor.windows import DEFAULT_RANGE, RANGES, TimeRange, Window, find_range, utc, window_at
from schemas.http import ProblemCode

logger = logging.getLogger(__name__)
_READ = ["GET", "HEAD"]


def create_app(settings: MonitorSettings) -> FastAPI:
    """The site; what it reads from is opened and closed by the application's lifespan."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Sources(settings) as sources:
            app.state.sources = sources
            app.state.reports = Reports(sources, settings.cache_s)
            app.state.metrics = SiteMetrics(sources)
            stop = threading.Event()
            keeping = asyncio.create_task(asyncio.to_thread(keep, sources.read_ahead, stop), name="keep")
            try:
                yield
            finally:
                stop.set()
                await asyncio.wait([keeping])

    app = FastAPI(title="Hotset monitor", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.settings = settings
    app.state.renderer = Renderer(settings.models)
    # Level 9, the default, takes over twice the processor time for a few bytes less.
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(SecurityHeaders)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_api_route("/", lambda: RedirectResponse(f"/{PAGES[0].slug}"), methods=_READ)
    app.add_api_route("/healthz", _healthz, methods=_READ)
    app.add_api_route("/readyz", _readyz, methods=_READ)
    app.add_api_route("/metrics", _metrics, methods=_READ)
    for page in PAGES:
        _add_page(app, page)
    app.add_exception_handler(ServingError, _on_serving_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_error)
    return app


class Choice:
    """The model and time range that a request asks for. Raises UnknownModel, InvalidRequest."""

    def __init__(
        self,
        request: Request,
        model: Annotated[str | None, Query()] = None,
        time_range: Annotated[str | None, Query(alias="range")] = None,
    ) -> None:
        models = request.app.state.settings.models
        self.model: str = models[0] if model is None else model
        if self.model not in models:
            raise UnknownModel(f"The site shows {', '.join(models)}.")
        found = DEFAULT_RANGE if time_range is None else find_range(time_range)
        if found is None:
            raise InvalidRequest(f"range is one of {', '.join(one.key for one in RANGES)}.")
        self.range: TimeRange = found


def _add_page(app: FastAPI, page: Page) -> None:
    def report(request: Request, choice: Choice) -> tuple[Window, Report]:
        if page.ask is not None:
            window = window_at(choice.range, time.time())
            return window, page.ask(request.app.state.sources, choice.model, window, request.query_params)
        reports: Reports = request.app.state.reports
        return reports.get(page, choice.model, choice.range)

    def export(request: Request, choice: Choice) -> tuple[Window, Report]:
        window, found = report(request, choice)
        if found.refused:
            raise InvalidRequest(found.refused)
        return window, found

    # Plain functions: FastAPI runs them in threads, so that /healthz answers while a query runs.
    def as_html(request: Request, choice: Annotated[Choice, Depends()]) -> HTMLResponse:
        window, found = report(request, choice)
        renderer: Renderer = request.app.state.renderer
        return HTMLResponse(renderer.page(page, choice.model, window, found))

    def as_csv(
        request: Request, choice: Annotated[Choice, Depends()], table: Annotated[str | None, Query()] = None
    ) -> Response:
        _, found = export(request, choice)
        if table is None:
            return _csv(all_to_csv(found.tables), f"{page.slug}-{choice.model}-{choice.range.key}")
        chosen = found.table(table)
        if chosen is None:
            raise HTTPException(404, f"table is one of {', '.join(one.name for one in found.tables)}.")
        return _csv(to_csv(chosen), f"{page.slug}-{table}-{choice.model}-{choice.range.key}")

    def as_json(request: Request, choice: Annotated[Choice, Depends()]) -> Response:
        window, found = export(request, choice)
        return Response(_json(choice, window, found), media_type="application/json")

    app.add_api_route(f"/{page.slug}", as_html, methods=_READ, response_model=None)
    app.add_api_route(f"/{page.slug}.csv", as_csv, methods=_READ, response_model=None)
    app.add_api_route(f"/{page.slug}.json", as_json, methods=_READ, response_model=None)


def _csv(content: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(content.encode(), media_type="text/csv; charset=utf-8; header=present", headers=headers)


def _json(choice: Choice, window: Window, report: Report) -> bytes:
    document = {
        "model": choice.model,
        "range": choice.range.key,
        "from": utc(window.start_s),
        "to": utc(window.end_s),
        "now": utc(window.now_s),
        **report.facts,
        "tables": {table.name: table.as_json() for table in report.tables},
    }
    return orjson.dumps(document, option=orjson.OPT_UTC_Z)


async def _healthz() -> JSONResponse:
    return JSONResponse({"status": "alive"})


def _metrics(request: Request) -> Response:
    metrics: SiteMetrics = request.app.state.metrics
    return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _readyz(request: Request) -> JSONResponse:
    """Ready when every model's log can be listed; a log that does not exist yet is an empty one."""
    sources: Sources = request.app.state.sources
    problems = {}
    for model, folder in sources.folders.items():
        try:
            folder.check()
        except OSError as error:
            problems[model] = f"the request log cannot be listed ({type(error).__name__})"
    return JSONResponse({"ready": not problems, "problems": problems}, 503 if problems else 200)


async def _on_serving_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServingError)
    return _problem(request, error.status, error.code, error.title, error.detail)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ProblemCode.NOT_FOUND, 405: ProblemCode.METHOD_NOT_ALLOWED}
    title = {404: "Not found", 405: "Method not allowed"}.get(error.status_code, "Request refused")
    detail = str(error.detail) if str(error.detail).lower() != title.lower() else "There is no such page."
    code = codes.get(error.status_code, ProblemCode.INVALID_REQUEST)
    return _problem(request, error.status_code, code, title, detail)


async def _on_error(request: Request, error: Exception) -> Response:
    """The boundary: what went wrong is in the log, and the reader is told that it is not their fault."""
    logger.error("a page failed", exc_info=error, extra={"path": request.url.path})
    detail = "The page could not be made. The site's log says why."
    response = _problem(request, 500, ProblemCode.INTERNAL, "Internal error", detail)
    # Raised past the middleware that sets them elsewhere.
    response.headers.update(SECURITY)
    return response


def _problem(request: Request, status: int, code: ProblemCode, title: str, detail: str) -> Response:
    """HTML for pages, an RFC 9457 document for everything else."""
    path = request.url.path
    if "." in path.rpartition("/")[2] or path in ("/healthz", "/readyz", "/metrics"):
        body = {"type": "about:blank", "title": title, "status": status, "code": code, "detail": detail}
        return JSONResponse(body, status, media_type="application/problem+json")
    settings: MonitorSettings = request.app.state.settings
    renderer: Renderer = request.app.state.renderer
    return HTMLResponse(renderer.problem(title, detail, settings.models[0], DEFAULT_RANGE), status)
