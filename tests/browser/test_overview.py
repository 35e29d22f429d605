"""The Overview in a real browser: nothing broken, nothing from elsewhere, hover, keys, dark, phone."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import PHONE, ROWS, Open, background, overflow
from tests.support.site import Site

pytestmark = pytest.mark.browser


def figures(site: Site, model: str = "delay") -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{site.url}/overview.json", params={"model": model}).json()
    return found


def test_shows_the_figures_of_the_log(open_page: Open, site: Site, screenshots: Path) -> None:
    page = open_page()
    found = figures(site)
    tiles = page.locator(".tile strong").all_inner_texts()
    assert tiles[0] == f"{found['requests']:,}"
    assert abs(found["requests"] - ROWS) < ROWS / 50
    assert tiles[1] == f"{100 * found['hit_rate']:.1f} %"
    assert tiles[6] == "1 → 1"
    page.screenshot(path=screenshots / "overview-light.png", full_page=True)
    page.screenshot(path=screenshots / "overview-head.png")


@pytest.mark.parametrize("size", [(1280, 900), PHONE], ids=["desk", "phone"])
def test_hover_shows_the_step_under_the_pointer(open_page: Open, site: Site, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    area = page.locator("figure.chart .area").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    row = figures(site)["tables"]["over_time"]["rows"][48]
    page.mouse.move(box["x"] + box["width"] * 48.5 / 96, box["y"] + 40)
    tip = page.locator("figure.chart .tip").first
    expect(tip).to_be_visible()
    expect(tip.locator(".when")).to_have_text(row["from"][:16].replace("T", " ") + " UTC")
    share = f"{100 * row['precomputed'] / row['requests']:.1f} %"
    expect(tip.locator(".line").first.locator(".value")).to_have_text(f"{row['precomputed']:,}  {share}")
    edge = tip.bounding_box()
    assert edge is not None
    assert edge["x"] >= 0
    assert edge["x"] + edge["width"] <= size[0]
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_keys_read_the_chart_and_reach_everything(open_page: Open, site: Site) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    chart = page.locator("figure.chart").first
    chart.focus()
    page.keyboard.press("End")
    rows = figures(site)["tables"]["over_time"]["rows"]
    spoken = chart.locator("[aria-live]")
    expect(spoken).to_contain_text(rows[-1]["from"][:16].replace("T", " "))
    page.keyboard.press("ArrowLeft")
    expect(spoken).to_contain_text(rows[-2]["from"][:16].replace("T", " "))
    expect(spoken).to_contain_text(f"Precomputed {rows[-2]['precomputed']:,}")
    page.keyboard.press("Escape")
    expect(chart.locator(".tip")).to_be_hidden()
    summary = page.locator("details.folded summary").first
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#table-over_time")).to_be_visible()
    assert page.locator("#table-over_time tbody tr").count() == 96


def test_a_release_is_marked_and_read_out(open_page: Open, site: Site) -> None:
    page = open_page("/overview?model=fare")
    rows = figures(site, "fare")["tables"]["over_time"]["rows"]
    [step] = [number for number, row in enumerate(rows) if row["changed"]]
    for chart in page.locator("figure.chart").all():
        expect(chart.locator(".area .release")).to_have_attribute("d", f"M{step + 0.5} 0V100")
    chart = page.locator("figure.chart").first
    chart.focus()
    page.keyboard.press("Home")
    spoken = chart.locator("[aria-live]")
    expect(spoken).not_to_contain_text("Released")
    for _ in range(step):
        page.keyboard.press("ArrowRight")
    expect(spoken).to_contain_text("Released version 7, 20261129T0200Z-1 (release 20261129T0200Z-1)")
    expect(page.locator("#table-changes tbody tr")).to_have_count(1)


def test_versions_and_stages_are_charts_of_their_own(open_page: Open, site: Site) -> None:
    page = open_page()
    tables = figures(site)["tables"]
    for title, name, first in (
        ("Hit rate by version", "version_over_time", "version_7"),
        ("p99 of a live answer's stages", "stage_over_time", "stage_route"),
        ("Age of precomputed answers", "age_over_time", "age_delay"),
    ):
        chart = page.get_by_role("group", name=f"{title}, a chart.")
        chart.focus()
        page.keyboard.press("End")
        row = tables[name]["rows"][-1]
        expect(chart.locator(".tip .when")).to_have_text(row["from"][:16].replace("T", " ") + " UTC")
        line = chart.locator(".tip .line").first
        expect(line.locator("svg.swatch")).to_be_visible()
        value = row[first]
        if value is not None:
            shown = {"version": f"{100 * value:.1f} %", "stage": f"{value:.3g}", "age": f"{value:.1f}"}
            expect(line.locator(".value")).to_contain_text(shown[name.partition("_")[0]][:4])


def test_dark_by_the_system_and_by_choice(open_page: Open, screenshots: Path) -> None:
    dark = open_page(scheme="dark")
    assert background(dark) == "rgb(18, 22, 28)"
    dark.screenshot(path=screenshots / "overview-dark.png", full_page=True)

    page = open_page()
    light = background(page)
    toggle = page.get_by_role("button", name="Theme")
    toggle.click()
    toggle.click()
    expect(toggle).to_have_text("Theme: dark")
    assert background(page) == background(dark) != light
    page.reload()
    assert background(page) == background(dark)
    toggle.click()
    assert background(page) == light


def test_phone_width_has_no_horizontal_scroll(open_page: Open, screenshots: Path) -> None:
    page = open_page(size=PHONE)
    assert overflow(page) == 0
    for summary in page.locator("details summary").all():
        summary.click()
    assert overflow(page) == 0
    page.screenshot(path=screenshots / "overview-phone.png", full_page=True)
    narrow = open_page(size=(320, 640))
    assert overflow(narrow) == 0


def test_model_and_range_are_chosen(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("link", name="7d").click()
    expect(page.locator(".context")).to_contain_text("last 7 days")
    with page.expect_navigation():
        page.get_by_label("Model", exact=True).select_option("007")
    assert "model=007" in page.url
    assert "range=7d" in page.url
    expect(page.locator(".context")).to_contain_text("No requests yet")
    expect(page.get_by_role("heading", name="What to do first")).to_be_visible()
    expect(page.locator("ol.words")).to_contain_text("/v1/models/007/predictions/")
    assert overflow(page) == 0


def test_without_scripts_everything_is_still_there(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/overview")
    expect(page.get_by_role("button", name="Show")).to_be_visible()
    assert page.locator("figure.chart svg path").count() > 10
    page.locator("details.folded summary").first.click()
    expect(page.locator("#table-over_time")).to_be_visible()
    context.close()
