"""The Fleet page in a real browser: its numbers are those of the log it was given; hover, keys, dark, phone."""

from collections import Counter
from datetime import datetime
from math import ceil
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import BUSY_ROWS, PHONE, Open, background, overflow
from tests.support.site import Site

pytestmark = pytest.mark.browser
FLEET = "/fleet?model=fare"
# T(b) = 20 + 5 b ms and 50 ms for a batch: 6 rows in 50 ms, of which a replica may be given 0.6.
ROWS_PER_S = 0.6 * 6 / 0.050


@pytest.fixture
def log(site: Site) -> pa.Table:
    files = sorted(site.log.parent.glob("requests/model=fare/date=*/hour=*/*.parquet"))
    return pa.concat_tables([pq.ParquetFile(path).read() for path in files])


def busiest(log: pa.Table, *without: str) -> int:
    """Requests of the busiest minute."""
    return max(minutes(log, *without).values())


def minutes(log: pa.Table, *without: str) -> Counter[datetime]:
    """Requests by minute, but for clients that were refused and for these sources."""
    rows = zip(*(log[name].to_pylist() for name in ("time", "source", "status")), strict=True)
    return Counter(
        at.replace(second=0, microsecond=0)
        for at, source, status in rows
        if not 400 <= status <= 499 and source not in without
    )


def tiles(page: Page) -> dict[str, str]:
    names, values = page.locator(".tile dt").all_inner_texts(), page.locator(".tile strong").all_inner_texts()
    return dict(zip(names, values, strict=True))


def test_numbers_are_those_of_the_log(open_page: Open, log: pa.Table, screenshots: Path) -> None:
    page = open_page(FLEET)
    every, tail = busiest(log), busiest(log, "precomputed", "cached")
    assert every > BUSY_ROWS * 0.98
    without, needed = (ceil(requests / 60 / ROWS_PER_S) for requests in (every, tail))
    assert (without, needed) == (7, 2)
    shown = tiles(page)
    assert (shown["Without precomputing"], shown["With precomputing"]) == ("7", "2")
    assert shown["If the cache is cold"] == "7"
    # Five replicas are 120 replica-hours a day, of which the night takes one.
    assert (shown["Left after costs"], shown["Replica-hours left"]) == (f"{119 / 24:.1f}", "119.0")
    assert shown["Money left"] == "–"
    table = page.locator("#table-fleet")
    expect(table.get_by_role("row", name="With so many requests")).to_contain_text(f"{every:,}")
    expect(table.get_by_role("row", name="With so many requests")).to_contain_text(f"{tail:,}")
    load = f"{every / 60 / ROWS_PER_S:.2f}"
    expect(table.get_by_role("row", name=f"Load {load}")).to_be_visible()
    expect(page.locator("#table-balance").get_by_role("row", name="Redis –")).to_contain_text("3 GB for 1 routed")
    expect(page.locator("main")).to_contain_text("Set MONITOR_PRICE_PER_REPLICA_HOUR")
    page.screenshot(path=screenshots / "fleet-light.png", full_page=True)
    page.screenshot(path=screenshots / "fleet-head.png")


def test_the_batch_that_the_tail_makes_is_smaller(open_page: Open, log: pa.Table, site: Site) -> None:
    """b = r T(b), at least a row: a seventh of the peak of all on each of 7, half of the tail's on each of 2."""
    found = httpx.get(f"{site.url}/fleet.json", params={"model": "fare"}).json()
    for requests, replicas, which in (
        (busiest(log), 7, "without"),
        (busiest(log, "precomputed", "cached"), 2, "with"),
    ):
        rate = requests / 60 / replicas / 1e3
        rows = max(1.0, rate * 20 / (1 - rate * 5))
        assert found[f"batch_rows_{which}"] == pytest.approx(rows)
        assert found[f"row_ms_{which}"] == pytest.approx((20 + 5 * rows) / rows)
    assert found["row_ms_with"] > found["row_ms_without"] * 1.1
    page = open_page(FLEET)
    row = page.locator("#table-fleet").get_by_role("row", name="Device time of a row")
    expect(row).to_contain_text("the smaller the batch, the dearer its rows")


def test_the_chart_reads_the_busy_step(open_page: Open, site: Site, log: pa.Table) -> None:
    page = open_page(FLEET)
    rows = httpx.get(f"{site.url}/fleet.json", params={"model": "fare"}).json()["tables"]["over_time"]["rows"]
    busy = max(range(len(rows)), key=lambda step: rows[step]["all_per_s"])
    assert rows[busy]["all_per_s"] == pytest.approx(busiest(log) / 60)
    assert (rows[busy]["without"], rows[busy]["with"]) == (7, 2)
    chart = page.get_by_role("group", name="Replicas for each step's busiest minutes, a chart.")
    chart.focus()
    page.keyboard.press("Home")
    for _ in range(busy):
        page.keyboard.press("ArrowRight")
    expect(chart.locator("[aria-live]")).to_contain_text("Replicas without 7, Replicas with 2")
    area = chart.locator(".area")
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * (busy + 0.5) / len(rows), box["y"] + 30)
    expect(chart.locator(".tip .when")).to_have_text(rows[busy]["from"][:16].replace("T", " ") + " UTC")


def test_dark_and_phone(open_page: Open, screenshots: Path) -> None:
    dark = open_page(FLEET, scheme="dark")
    assert background(dark) == "rgb(18, 22, 28)"
    dark.screenshot(path=screenshots / "fleet-dark.png", full_page=True)
    page = open_page(FLEET, size=PHONE)
    assert overflow(page) == 0
    for summary in page.locator("details summary").all():
        summary.click()
    assert overflow(page) == 0
    page.screenshot(path=screenshots / "fleet-phone.png", full_page=True)


def test_an_empty_system_says_what_to_do_first(open_page: Open) -> None:
    page = open_page("/fleet?model=007")
    expect(page.get_by_role("heading", name="What to do first")).to_be_visible()
    expect(page.locator(".tile strong").first).to_have_text("–")
    assert overflow(page) == 0


def test_every_figure_is_dated(open_page: Open, log: pa.Table) -> None:
    page = open_page(FLEET)
    ((peak, _),) = minutes(log).most_common(1)
    expect(page.locator("#table-device").get_by_role("row", name="T(b)")).to_contain_text("reported 20")
    expect(page.locator("#table-fleet").get_by_role("row", name="Which began")).to_contain_text(
        f"{peak:%Y-%m-%d %H:%M}"
    )
    expect(page.locator("#table-balance").get_by_role("row", name="Nightly job")).to_contain_text(
        "UTC, by its reports"
    )
