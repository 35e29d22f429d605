"""The Hot set page in a real browser: nights, curve, windows, expected and realised, and an empty system."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from schemas.hotset_report import Used
from schemas.names import generation_name
from tests.browser.conftest import Open, overflow
from tests.support.hotset_reports import hotset_report, write_report
from tests.support.request_log import traffic, write_log
from tests.support.runs_on_disk import record_change
from tests.support.site import Site, running_site, running_valkey

pytestmark = pytest.mark.browser
NOW = datetime.now(UTC).replace(second=0, microsecond=0)
NIGHTS = [NOW - timedelta(days=days, hours=2) for days in (0, 1, 2)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three nights, of which the newest was not activated, and traffic of which 74 % is precomputed."""
    folder: Path = tmp_path_factory.mktemp("hotset")
    write_log(folder, "delay", traffic(NOW - timedelta(hours=30), NOW, 6_000))
    names = [generation_name(night, 1) for night in NIGHTS]
    write_report(folder, hotset_report(names[0], NIGHTS[0], expected_share=0.53))
    write_report(folder, hotset_report(names[1], NIGHTS[1], used=Used.YESTERDAY))
    write_report(folder, hotset_report(names[2], NIGHTS[2], windows=0)).write_bytes(b"{cut short")
    with running_valkey(folder) as (url, client):
        for number, place in enumerate((2, 1), 1):
            at = NIGHTS[place] + timedelta(hours=1)
            record_change(client, "delay", at, "7", names[place], "activate", number)
        with running_site(folder, REDIS_URL=url, MODELS='["delay", "idle"]', CACHE_S="60") as running:
            yield running
            assert running.errors == []


@pytest.fixture
def page(open_page: Open) -> Page:
    return open_page("/hotset")


def figures(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{site.url}/hotset.json").json()
    return found


def test_what_was_chosen_and_what_came_of_it(page: Page, site: Site, screenshots: Path) -> None:
    tiles = page.locator(".tile strong").all_inner_texts()
    realised = figures(site)["tables"]["realised"]["rows"]
    assert [row["generation"] for row in realised] == [generation_name(night, 1) for night in NIGHTS[1::-1]]
    # The newest never went live; the one before has been for 25 hours, with 74 % of the traffic precomputed.
    realised.reverse()
    assert (realised[0]["live_since"], realised[0]["realised_share"]) == (None, None)
    assert realised[1]["live_since"] == (NIGHTS[1] + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert realised[1]["hours"] == pytest.approx(25, abs=0.1)
    assert realised[1]["answers"] == pytest.approx(6_000 * 0.99 * 25 / 30, rel=0.05)
    assert realised[1]["realised_share"] == pytest.approx(0.74 / 0.99, abs=0.02)
    assert realised[1]["hit_share"] == pytest.approx(0.79 / 0.99, abs=0.02)
    assert tiles[:2] == ["543", "53.0 %"]
    assert tiles[2] == f"{100 * realised[1]['realised_share']:.1f} %"
    assert tiles[3:] == ["8.3 %", "6.1 %", "9.60 USD"]
    expect(page.locator(".context")).to_contain_text("new choice: the choice is no worse than yesterday's set")
    expect(page.locator("#table-nights")).to_contain_text("yesterday's set kept")
    expect(page.locator("#table-nights")).to_contain_text("the choice lost: 60.1 % to 63.0 %")
    cut_short = generation_name(NIGHTS[2], 1)
    expect(page.locator(".warning")).to_have_text(f"Reports that cannot be read: {cut_short}.")
    expect(page.locator("#table-log")).to_contain_text("<b>007</b>")
    page.screenshot(path=screenshots / "hotset-light.png", full_page=True)


def test_the_curve_and_its_chosen_point(page: Page, site: Site) -> None:
    chart = page.locator("figure.chart").first
    expect(chart.locator(".legend")).to_contain_text("Chosen: 4.5 % of the entities, 52.0 % of the requests")
    rows = figures(site)["tables"]["coverage"]["rows"]
    assert [row["traffic"] for row in rows] == sorted(row["traffic"] for row in rows)
    assert rows[-1]["traffic"] > 0.95
    chart.focus()
    page.keyboard.press("Home")
    expect(chart.locator("[aria-live]")).to_contain_text("of the entities: Entities")
    # 4.5 % of the entities are 1.35 decades left of all of them; the axis has five.
    mark = chart.locator("path.l-series-2").last.get_attribute("d")
    assert mark is not None
    assert float(mark.split("H")[1].split("V")[0]) / len(rows) == pytest.approx(1 - 1.347 / 5, abs=0.001)


def test_windows_beside_caches(page: Page, site: Site) -> None:
    chart = page.locator("figure.chart").nth(1)
    legend = chart.locator(".legend li").all_inner_texts()
    assert legend == ["Choice", "LRU", "LFU", "W-TinyLFU", "Last window's top", "Yesterday's set"]
    chart.focus()
    page.keyboard.press("End")
    expect(chart.locator("[aria-live]")).to_contain_text("Yesterday's set 64.0 %")
    table = httpx.get(f"{site.url}/hotset.csv", params={"table": "windows"}).text
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    assert len(rows) == 8
    assert [row["yesterday"] for row in rows] == [""] * 7 + ["0.64"]


def test_an_empty_system_says_what_to_do_first(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/hotset?model=idle")
    expect(page.locator(".context")).to_contain_text("No night has chosen a hot set yet")
    expect(page.locator("main")).to_contain_text("nightly_precompute")
    expect(page.locator("main")).to_contain_text("python -m batch_scoring.hotset backtest")


def test_phone_width_and_dark(open_page: Open, screenshots: Path) -> None:
    page = open_page("/hotset", size=(320, 780), scheme="dark")
    assert overflow(page) == 0
    for summary in page.locator("details summary").all():
        summary.click()
    assert overflow(page) == 0
    page.screenshot(path=screenshots / "hotset-phone-dark.png", full_page=True)
