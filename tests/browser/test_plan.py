"""The Plan page in a real browser: the CLI's numbers, sliders, keys, nonsense, without scripts, phone and dark."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Open, overflow
from tests.support.site import HOME, Site

pytestmark = pytest.mark.browser


@pytest.fixture
def page(open_page: Open) -> Page:
    return open_page("/plan")


def put(page: Page, **fields: str) -> None:
    """Types into fields, and waits for the server's answer to the last of them."""
    for name, text in list(fields.items())[:-1]:
        page.locator(f"#f-{name}").fill(text)
    name, text = list(fields.items())[-1]
    with page.expect_response(lambda response: f"{name}={text}" in response.url):
        page.locator(f"#f-{name}").fill(text)
    expect(page.locator("#answer[aria-busy]")).to_have_count(0)


def asked_of_the_planner(command: str) -> dict[str, Any]:
    """The command line that the page shows, with `--json`, run as a user would."""
    words = shlex.split(command)
    assert words[:4] == [".venv/bin/python", "-m", "online.planning", "size"]
    call = [sys.executable, *words[1:], "--json"]
    done = subprocess.run(call, cwd=HOME, capture_output=True, check=True, timeout=60)
    found: dict[str, Any] = orjson.loads(done.stdout)
    return found


def test_the_page_says_what_the_command_line_says(page: Page, site: Site, screenshots: Path) -> None:
    put(
        page,
        peak_per_s="2000",
        p99_ms="50",
        hit_share="0.7",
        cache_share="0.3",
        outside_ms="2",
        outside_row_ms="0.05",
        weight_gb="20",
        memory_gb="16",
        budget_per_month="2000",
        price_per_hour="1",
    )
    expected = asked_of_the_planner(page.locator("#command").inner_text())
    query = urlsplit(page.url).query
    assert httpx.get(f"{site.url}/plan.json?{query}").json()["plan"] == expected
    fleets = expected["fleets"]
    assert [fleet["replicas"] for fleet in fleets] == [6, 2, 2]
    tiles = page.locator(".tile strong").all_inner_texts()
    assert tiles[0] == "6 → 2"
    assert tiles[1] == f"{fleets[2]['p50_ms']:.1f} / {fleets[2]['p99_ms']:.1f}"
    assert tiles[2] == f"{100 * fleets[2]['load']:.1f} %"
    assert tiles[3] == f"{fleets[2]['cost_per_month']:,.0f} USD"
    assert expected["weights_share_of_memory"] == 1.25
    assert tiles[5] == "125.0 %"
    expect(page.locator("#answer")).to_contain_text("The weights do not fit: 125% of a card's memory")
    assert tiles[6] == str(fleets[2]["cold"]["replicas"])
    for row, fleet in zip(page.locator("#table-fleets tbody tr").all(), fleets, strict=True):
        cells = row.locator("th, td").all_inner_texts()
        assert cells[0] == fleet["scenario"]
        assert cells[3] == str(fleet["replicas"])
        assert cells[5] == f"{fleet['p99_ms']:.1f}"
        assert float(cells[6]) == pytest.approx(fleet["p99_half_width_ms"], rel=0.01)
        assert cells[-1] == ("yes" if fleet["is_in_budget"] else "no")
    page.screenshot(path=screenshots / "plan-light.png", full_page=True)


def test_fields_begin_with_what_is_measured(page: Page, site: Site) -> None:
    given = httpx.get(f"{site.url}/plan.json").json()["given"]
    for name in ("tau0_ms", "alpha_ms", "max_batch_rows", "peak_per_s", "hit_share", "p99_ms"):
        assert page.locator(f"#f-{name}").input_value() == f"{given[name]['value']:g}", name
    assert (given["tau0_ms"]["value"], given["alpha_ms"]["value"]) == (6.0, 1.2)
    expect(page.locator("#said-tau0_ms")).to_contain_text("measured by node n1, version 7")
    expect(page.locator("#said-peak_per_s")).to_contain_text("the log's busiest minute")
    expect(page.locator("#said-price_per_hour")).to_contain_text("an example, to be replaced")
    assert 0.5 < given["hit_share"]["value"] < 1
    put(page, tau0_ms="9")
    expect(page.locator("#said-tau0_ms")).to_contain_text("yours; 6: measured by node n1")
    page.get_by_role("link", name="Begin again").click()
    expect(page.locator("#f-tau0_ms")).to_have_value("6")


def test_sliders_by_keys_and_the_chart_read_out(page: Page) -> None:
    put(page, peak_per_s="1000")
    slider = page.get_by_role("slider", name="Requests in the busiest minute")
    before = page.locator(".tile strong").first.inner_text()
    slider.focus()
    with page.expect_response(lambda response: "peak_per_s=100000" in response.url):
        page.keyboard.press("End")
    expect(page.locator("#f-peak_per_s")).to_have_value("100000")
    expect(page.locator(".tile strong").first).not_to_have_text(before)
    expect(slider).to_be_focused()
    assert page.evaluate("new URLSearchParams(location.search).get('peak_per_s')") == "100000"
    chart = page.locator("figure.chart")
    chart.focus()
    page.keyboard.press("Home")
    expect(chart.locator("[aria-live]")).to_contain_text("2.5 % Load: Requests a second")
    expect(chart.locator("[aria-live]")).to_contain_text("Inoue's bound ms")


def test_nonsense_is_told_beside_its_field(page: Page) -> None:
    put(page, hit_share="7")
    field = page.locator("#f-hit_share")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#said-hit_share")).to_have_text(
        "hit_share is 7: allowed is a number from 0 to 1, or nothing"
    )
    expect(page.locator("#answer")).to_contain_text("Nothing is planned: 1 field above cannot be planned with.")
    put(page, hit_share="0.5", p99_ms="3")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#said-p99_ms")).to_contain_text("p99_ms is 3: allowed is at least")
    put(page, p99_ms="200")
    expect(page.locator("#table-fleets")).to_be_visible()


def test_without_scripts_the_form_is_submitted(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.url}/plan")
    assert page.get_by_role("slider").count() == 0
    page.locator("#f-peak_per_s").fill("2000")
    page.get_by_role("button", name="Plan", exact=True).click()
    assert "peak_per_s=2000" in page.url
    expect(page.locator("#command")).to_contain_text("--peak-per-s 2000 ")
    assert page.locator("figure.chart svg path").count() > 6
    context.close()


def test_phone_width_and_dark(open_page: Open, screenshots: Path) -> None:
    page = open_page("/plan?peak_per_s=2000", size=(320, 780), scheme="dark")
    assert overflow(page) == 0
    page.locator("details summary").first.click()
    assert overflow(page) == 0
    page.screenshot(path=screenshots / "plan-phone-dark.png", full_page=True)
