"""The Quality page in a real browser: what was planted is named, drawn and alarmed, and nothing else is."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from schemas.drift import DriftReport
from tests.browser.conftest import Open, opening
from tests.support.request_log import traffic, write_log
from tests.support.site import Site, running_site, running_valkey
from tests.support.watched import compared_row, sample, write_compared, write_drift

pytestmark = pytest.mark.browser
PHONE = (375, 780)
ROWS = 3_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, DriftReport]]:
    """A shift, an absent feature and an unknown airline in the tail only; hits too few; some hits that differ."""
    folder: Path = tmp_path_factory.mktemp("quality")
    now = datetime.now(UTC)
    write_log(folder, "delay", traffic(now - timedelta(hours=24), now, ROWS))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    write_drift(folder, "delay", midnight - timedelta(days=1), {"hits": sample(50, 1), "tail": sample(2_000, 2)})
    tail = sample(2_000, 3, shift=600.0, newcomers=40, has_gates=False)
    report = write_drift(folder, "delay", midnight, {"hits": sample(50, 4), "tail": tail})
    hour = now - timedelta(hours=1)
    rows = [compared_row(hour, number) for number in range(95)]
    rows += [compared_row(hour, 95, kind="numeric_over", tolerances=40.0)]
    rows += [compared_row(hour, 96 + n, kind="feature_drift", tolerances=float("inf")) for n in range(3)]
    rows += [compared_row(hour, 99, kind=None, skipped="over_capacity", tolerances=None, output=None)]
    write_compared(folder, "delay", rows)
    with (
        running_valkey(folder) as (url, _),
        running_site(folder, REDIS_URL=url, MODELS='["delay", "idle"]', CACHE_S="60") as running,
    ):
        yield running, report
        assert running.errors == []


@pytest.fixture
def open_page(browser: Browser, made: tuple[Site, DriftReport]) -> Iterator[Open]:
    with opening(browser, made[0], "/quality") as open_one:
        yield open_one


def quality(site: Site, model: str = "delay") -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{site.url}/quality.json", params={"model": model}).json()
    return found


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_what_was_planted_in_the_tail_is_named_worst_first(
    open_page: Open, made: tuple[Site, DriftReport], screenshots: Path
) -> None:
    site, report = made
    found = quality(site)
    assert found["drift_alarms_hits"] == 0
    assert found["drift_too_few_hits"] == 4
    tail = {row["name"]: row for row in found["tables"]["drift_tail"]["rows"]}
    assert {name for name, row in tail.items() if row["level"] == "alarm"} == {"distance", "gate", "airline"}
    assert list(tail)[-1] == "late"
    assert tail["distance"]["psi"] > tail["distance"]["psi_threshold"] > 0.1
    assert tail["gate"]["found"] == "none of 2,000 records has it"
    assert "'NK' (40)" in tail["airline"]["found"]
    assert {one.name for one in report.alarms} == {"distance", "gate", "airline"}
    # The newest window is shown, and those of the one before are not among its alarms.
    assert [row["alarms"] for row in found["tables"]["windows"]["rows"]] == [3, 0]

    page = open_page()
    tiles = page.locator(".tile strong").all_inner_texts()
    assert tiles[2:6] == ["0 alarms", "3 alarms", "99", "1"]
    assert "too few rows: 50 sampled rows; 100 are needed" in page.locator("#table-drift_hits").inner_text()
    titles = page.locator(".histogram figcaption .title").all_inner_texts()
    assert {title.partition(",")[0] for title in titles[:3]} == {"distance", "gate", "airline"}
    page.screenshot(path=screenshots / "quality-light.png", full_page=True)


def test_both_histograms_are_read_by_pointer_and_keys(open_page: Open, made: tuple[Site, DriftReport]) -> None:
    site, _ = made
    page = open_page()
    figure = page.locator("figure.chart", has_text="distance, input of tail").first
    tables = quality(site)["tables"]
    rows = next(t for name, t in tables.items() if name.startswith("histogram_") and "distance" in t["title"])[
        "rows"
    ]
    figure.focus()
    page.keyboard.press("Home")
    spoken = figure.locator("[aria-live]")
    assert rows[0]["bin"] == "0 to 100"
    assert (rows[0]["baseline"], rows[0]["window"]) == (0.05, 0.0)
    expect(spoken).to_contain_text("0 to 100 distance")
    expect(spoken).to_contain_text("Baseline 5.0 %, Window 0.0 %")
    area = figure.locator(".area")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * (len(rows) - 0.5) / len(rows), box["y"] + 20)
    expect(figure.locator(".tip .when")).to_have_text("1900 to 2000 distance")
    for side in ("baseline", "window"):
        bars = figure.locator(f".area > svg path.s-{side}")
        assert (bars.get_attribute("d") or "").count("M") == sum(row[side] > 0 for row in rows)


def test_parity_says_what_was_compared_and_what_differed(open_page: Open, made: tuple[Site, DriftReport]) -> None:
    site, _ = made
    found = quality(site)
    assert found["parity_kinds"] == {"equal": 95, "numeric_over": 1, "feature_drift": 3}
    assert found["parity_skipped"] == {"over_capacity": 1}
    page = open_page()
    text = page.locator("#table-parity_differences").inner_text()
    assert "another label" in text
    assert "40.0" in text
    shares = page.locator("#table-parity tbody tr").all_inner_texts()
    assert [line.split("\t")[:3] for line in shares[:3]] == [
        ["equal", "95", "96.0 %"],
        ["numeric", "0", "0.0 %"],
        ["numeric_over", "1", "1.0 %"],
    ]


def test_every_table_downloads(made: tuple[Site, DriftReport]) -> None:
    site, _ = made
    for name, table in quality(site)["tables"].items():
        answer = httpx.get(f"{site.url}/quality.csv", params={"model": "delay", "table": name})
        assert answer.status_code == 200
        assert len(list(csv.reader(io.StringIO(answer.text)))) == len(table["rows"]) + 1, name


def test_confidence_is_that_of_the_log(made: tuple[Site, DriftReport]) -> None:
    found = quality(made[0])
    # Drawn evenly from 0 to 1.
    assert found["confidence_hits_mean"] == pytest.approx(0.5, abs=0.03)
    assert found["confidence_hits_answers"] == pytest.approx(0.79 * ROWS, rel=0.05)
    assert found["confidence_tail_answers"] == pytest.approx(0.195 * ROWS, rel=0.15)


def test_an_empty_system_says_what_to_do_first_and_fits_a_phone(open_page: Open, screenshots: Path) -> None:
    page = open_page("/quality?model=idle", size=PHONE)
    expect(page.get_by_role("heading", name="What to do first")).to_be_visible()
    assert "batch_scoring.drift --model idle" in page.locator("main").inner_text()
    assert overflow(page) == 0
    full = open_page(size=PHONE, scheme="dark")
    for summary in full.locator("details summary").all():
        summary.click()
    assert overflow(full) == 0
    full.screenshot(path=screenshots / "quality-phone-dark.png", full_page=True)
