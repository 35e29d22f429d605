"""A real Chromium (Debian's, by playwright's driver) and a site with a day of plausible traffic."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.request_log import traffic, write_log
from tests.support.routed import announce, route
from tests.support.site import Site, running_site, running_valkey

ROWS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("no Chromium: install Debian's package chromium, or name one by the variable CHROMIUM")
    # Not for the session: while its driver is up, the driver's event loop runs in this thread, and no other can.
    # Chromium's own sandbox needs privileges that containers do not give; only our own pages are opened here.
    with sync_playwright() as driver, driver.chromium.launch(executable_path=path, args=["--no-sandbox"]) as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("site")
    now = datetime.now(UTC)
    write_log(folder, "delay", traffic(now - timedelta(hours=24), now, ROWS))
    with running_valkey(folder) as (url, client):
        route(client, "delay", age_s=50_000)
        announce(client, "n1", model="delay", version="7", tau0_ms=6.0, alpha_ms=1.2, max_batch_rows=64)
        with running_site(folder, REDIS_URL=url, MODELS='["delay", "007"]', CACHE_S="60") as running:
            yield running


@pytest.fixture(scope="module")
def screenshots() -> Path:
    """Kept as build artefacts; `SCREENSHOTS` names another folder."""
    folder = Path(os.environ.get("SCREENSHOTS", "build/screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
