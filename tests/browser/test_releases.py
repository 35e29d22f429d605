"""The Releases page in a real browser: what is active and what goes back, gates, downloads, phone width, dark."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from batch_scoring.publishing.activate import rollback
from batch_scoring.runs import Refused
from tests.browser.conftest import Open, background, overflow
from tests.support.released import Released
from tests.support.site import Site, running_site, running_valkey

pytestmark = pytest.mark.browser
FIRST, SECOND, REFUSED = (f"202611{day}T0200Z-1" for day in (26, 27, 29))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nights, a rollback from the second, and one that was refused."""
    folder: Path = tmp_path_factory.mktemp("releases")
    with running_valkey(folder) as (url, client):
        made = Released(folder, url, client)
        made.active(26, 1)
        made.active(27, 2)
        rollback(made.settings, "delay", "wrong labels", by="anna")
        made.publish(29, 4).refuse("verify", Refused("bucket 0 is not what was scored"))
        with running_site(folder / "data", REDIS_URL=url, MODELS='["delay", "idle"]') as running:
            yield running
            assert running.errors == []


def test_what_is_active_by_whom_and_where_a_rollback_goes(open_page: Open, site: Site) -> None:
    page = open_page("/releases?model=delay")
    context = page.locator(".context")
    expect(context).to_contain_text(f"Active is {FIRST} of version 1")
    expect(context).to_contain_text("by anna (rollback: wrong labels)")
    expect(context).to_contain_text(f"A rollback goes to {SECOND}")
    expect(page.locator("main")).to_contain_text("bucket 0 is not what was scored")
    for link in page.locator("a.download").all():
        assert httpx.get(f"{site.url}{link.get_attribute('href')}").status_code == 200
    text = httpx.get(f"{site.url}/releases.csv", params={"model": "delay", "table": "releases"}).text
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["generation"] for row in rows} == {FIRST, SECOND, REFUSED}


def test_a_phone_in_the_dark_and_a_model_without_nights(open_page: Open, screenshots: Path) -> None:
    page = open_page("/releases?model=delay", size=(320, 780), scheme="dark")
    assert overflow(page) == 0
    page.screenshot(path=screenshots / "releases-phone-dark.png", full_page=True)
    light = open_page("/releases?model=idle", size=(320, 780))
    assert overflow(light) == 0
    assert background(light) != background(page)
    expect(light.locator(".context")).to_contain_text("Nothing is active yet")
    expect(light.locator("main")).to_contain_text("trigger the DAG nightly_precompute")
