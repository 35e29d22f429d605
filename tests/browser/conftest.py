"""A real Chromium (Debian's, by playwright's driver) and a site with a day of plausible traffic."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import redis
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.request_log import traffic, write_log
from tests.support.routed import GENERATION, announce, route
from tests.support.runs_on_disk import record_change, write_run
from tests.support.site import Site, running_site, running_valkey

ROWS = 20_000
# Of the model `fare`: a day of little traffic, and one minute that sizes its fleet.
QUIET_ROWS, BUSY_ROWS = 3_000, 30_000
PHONE = (375, 780)
Scheme = Literal["light", "dark"]
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("no Chromium: install Debian's package chromium, or name one by the variable CHROMIUM")
    # Not for the session: while its driver is up, the driver's event loop runs in this thread, and no other can.
    # Chromium's own sandbox needs privileges that containers do not give; only our own pages are opened here.
    with sync_playwright() as driver, driver.chromium.launch(executable_path=path, args=["--no-sandbox"]) as found:
        yield found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("site")
    now = datetime.now(UTC)
    write_log(folder, "delay", traffic(now - timedelta(hours=24), now, ROWS))
    write_log(folder, "fare", fare_log(now))
    began = now - timedelta(hours=9)
    write_run(folder, "fare", GENERATION, began, needed_bytes=3_000_000_000, score=2400, publish=3000, verify=3600)
    with running_valkey(folder) as (url, client):
        route(client, "delay", age_s=50_000)
        announce(client, "n1", model="delay", version="7", tau0_ms=6.0, alpha_ms=1.2, max_batch_rows=64)
        _of_fare(client, now)
        models = '["delay", "007", "fare"]'
        with running_site(folder, REDIS_URL=url, MODELS=models, CACHE_S="60") as running:
            yield running


def fare_log(now: datetime) -> pa.Table:
    busy = (now - timedelta(hours=5)).replace(second=0, microsecond=0)
    quiet = traffic(now - timedelta(hours=23), now, QUIET_ROWS, seed=1)
    return pa.concat_tables([quiet, traffic(busy, busy + timedelta(seconds=60), BUSY_ROWS, seed=2)])


def _of_fare(client: redis.Redis, now: datetime) -> None:
    """Version 6 went into service before the last day began, version 7 eight hours ago."""
    route(client, "fare", age_s=9 * 3600)
    announce(client, "n2", model="fare", version="7", tau0_ms=20.0, alpha_ms=5.0, max_batch_rows=64)
    older = "20261128T0200Z-1"
    record_change(client, "fare", now - timedelta(hours=33), "6", older, f"activate {older}", 1)
    record_change(client, "fare", now - timedelta(hours=8), "7", GENERATION, f"release {GENERATION}", 2)


@contextmanager
def opening(browser: Browser, site: Site, first: str) -> Iterator[Open]:
    """Opens a path; at the end nothing may have been logged to the console or asked of another host."""
    contexts, complaints, asked = [], [], set()

    def open_one(path: str = first, size: tuple[int, int] = (1280, 900), scheme: Scheme = "light") -> Page:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        assert page.goto(site.url + path) is not None
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []
    assert asked == {urlsplit(site.url).netloc}


@pytest.fixture
def open_page(browser: Browser, site: Site) -> Iterator[Open]:
    with opening(browser, site, "/overview") as open_one:
        yield open_one


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.fixture(scope="module")
def screenshots() -> Path:
    """Kept as build artefacts; `SCREENSHOTS` names another folder."""
    folder = Path(os.environ.get("SCREENSHOTS", "build/screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
