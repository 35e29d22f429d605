"""The site over HTTP: a real process, real files, a real Valkey."""

import csv
import io
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
import redis

from schemas.keys import REPLICAS_KEY, routes_key
from tests.support.request_log import hour_folder, log_table, traffic, write_log
from tests.support.routed import GENERATION, announce, route
from tests.support.runs_on_disk import record_change, write_run
from tests.support.site import Site, running_site

NUMBERS = ["7", "07", "007", "7.0", "1e5", "100000", "9007199254740992", "9007199254740993"]
HOSTILE = ["<script>alert(1)</script>", "=HYPERLINK(1)", *NUMBERS, 'a"b', "é", "e\u0301", " a"]
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("data")
    write_log(folder, "delay", traffic(NOW - timedelta(hours=3), NOW - timedelta(minutes=10), 4000))
    odd = [{"time": NOW - timedelta(seconds=n), "entity": e, "label": e, "code": e} for n, e in enumerate(HOSTILE)]
    write_log(folder, "007", log_table([row | {"source": None, "status": 404} for row in odd]))
    return folder


@pytest.fixture(scope="module")
def site(data: Path, valkey: tuple[str, redis.Redis]) -> Iterator[Site]:
    url, client = valkey
    route(client, "delay", age_s=7260)
    record_change(client, "delay", NOW - timedelta(hours=2), "7", GENERATION, f"activate {GENERATION}", 1)
    hour_s = 3600
    write_run(data, "delay", GENERATION, NOW, score=2 * hour_s, publish=5 * hour_s, verify=6 * hour_s)
    announce(client, "n1", model="delay", version="7", tau0_ms=6.0, alpha_ms=1.2, max_batch_rows=64, device="cpu")
    models = '["delay", "007", "idle"]'
    price = {
        "PRICE_PER_REPLICA_HOUR": "1.5",
        "PRICE_PER_BATCH_HOUR": "2",
        "PRICE_PER_REDIS_GB_MONTH": "4",
        "CURRENCY": "EUR",
    }
    with running_site(data, REDIS_URL=url, MODELS=models, **price) as running:
        yield running
        assert running.errors == []


def overview(site: Site, **query: str) -> dict[str, object]:
    answer = httpx.get(f"{site.url}/overview.json", params=query)
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def test_figures_of_the_log(site: Site) -> None:
    found = overview(site, model="delay")
    assert found["requests"] == 4000
    shares = [found[f"share_{source}"] for source in ("precomputed", "cached", "live", "stale", "default")]
    assert sum(map(float, map(str, shares))) + float(str(found["errors"])) / 4000 == pytest.approx(1)
    assert found["hit_rate"] == pytest.approx(float(str(shares[0])) + float(str(shares[1])))
    assert (found["generation"], found["version"], found["generation_rows"]) == (GENERATION, "7", 603)
    assert 7259 < float(str(found["generation_age_s"])) < 7300
    assert found["replica_rows_per_s"] == pytest.approx(439.02, abs=0.01)
    assert (found["replicas_without"], found["replicas_with"]) == (1, 1)


def test_the_page_says_where_numbers_come_from(site: Site) -> None:
    page = httpx.get(f"{site.url}/overview").text
    for words in (
        "<b>4,000</b> rows of the log counted",
        "20261129T0200Z-1",
        "2 h 1 min",
        "activate 20261129T0200Z-1",
    ):
        assert words in page
    page = httpx.get(f"{site.url}/fleet").text
    for words in (
        "6 + 1.2 b ms, b ≤ 64",
        "0.6 × 36 rows / T(36)",
        "never from the mean hit rate",
        "MONITOR_PRICE_PER_REPLICA_HOUR",
        "1.5 EUR a replica-hour",
        "20261129T0200Z-1, which took 6 h, 2 h of it until scored",
    ):
        assert words in page


def test_a_night_that_costs_more_than_it_saves_says_so(site: Site) -> None:
    """No replica is saved (1 to 1); 6 hours a day at 2 EUR are 6 x 730 / 24 x 2 = 365 a month."""
    found = httpx.get(f"{site.url}/fleet.json").json()
    assert (found["replicas_without"], found["replicas_with"], found["replicas_cold"]) == (1, 1, 1)
    assert found["nightly_job_hours_per_day"] == pytest.approx(6)
    assert found["redis_gb"] == pytest.approx(0.0025)
    # 0.0025 GB at 4 EUR a month.
    assert found["left_money_per_month"] == pytest.approx(-365.01)
    assert found["left_replica_hours_per_day"] == pytest.approx(-365.01 / 730 * 24 / 1.5)
    rows = {row["figure"]: row for row in found["tables"]["balance"]["rows"]}
    assert rows["Left"]["money_per_month"] == pytest.approx(-365.01)
    assert "precomputing costs more than it saves" in rows["Left"]["how"]
    assert "Precomputing costs more than it saves at this traffic" in httpx.get(f"{site.url}/fleet").text


def test_changes_are_marked_where_they_were_made(site: Site) -> None:
    tables = overview(site)["tables"]
    assert isinstance(tables, dict)
    [change] = tables["changes"]["rows"]
    assert (change["version"], change["why"], change["by"]) == ("7", f"activate {GENERATION}", "airflow")
    marked = [row for row in tables["over_time"]["rows"] if row["changed"]]
    assert [row["changed"] for row in marked] == [f"version 7, {GENERATION} (activate {GENERATION})"]
    assert marked[0]["from"] <= change["at"]
    assert httpx.get(f"{site.url}/overview").text.count('<path class="release" d="M') == 2 * 6


def test_every_path_has_its_stages_and_every_model_its_hit_rate(site: Site, data: Path) -> None:
    tables = overview(site)["tables"]
    assert isinstance(tables, dict)
    table = traffic(NOW - timedelta(hours=3), NOW - timedelta(minutes=10), 4000)
    live = sorted(us for us, source in zip(*(table[n].to_pylist() for n in ("queue_us", "source")), strict=True)
                  if source == "live")  # fmt: skip
    stages = {row["stage"]: row for row in tables["by_stage"]["rows"]}
    assert stages["queue"]["live_p50_ms"] == pytest.approx(live[len(live) // 2] / 1e3, rel=0.03)
    assert stages["queue"]["live_p99_ms"] == pytest.approx(live[int(0.99 * len(live))] / 1e3, rel=0.03)
    assert stages["lookup"]["precomputed_p99_ms"] > stages["route"]["precomputed_p99_ms"] > 0
    assert (stages["execute"]["precomputed_p50_ms"], stages["total"]["cached_p50_ms"] > 0) == (None, True)
    assert {row["model"]: row["requests"] for row in tables["by_model"]["rows"]} == {
        "delay": 4000, "007": len(HOSTILE), "idle": 0,
    }  # fmt: skip
    steps = [row["version_7"] for row in tables["version_over_time"]["rows"] if row["version_7"] is not None]
    assert steps
    assert all(0.5 < share < 1 for share in steps)


def test_numbers_that_are_none_leave_the_pages_whole(site: Site, data: Path) -> None:
    folder = hour_folder(data, "idle", NOW)
    odd = [{"time": NOW, "source": "live", "confidence": value} for value in (float("nan"), float("inf"), None)]
    pq.write_table(log_table(odd), folder / "odd.parquet")
    try:
        found = overview(site, model="idle", range="1h")
        tables = found["tables"]
        assert isinstance(tables, dict)
        assert (found["requests"], [row["confidence"] for row in tables["latest"]["rows"]]) == (3, [None] * 3)
        for slug in ("overview", "fleet"):
            answer = httpx.get(f"{site.url}/{slug}.json", params={"model": "idle", "range": "1h"})
            json.loads(answer.text, parse_constant=pytest.fail)
            assert httpx.get(f"{site.url}/{slug}", params={"model": "idle", "range": "1h"}).status_code == 200
    finally:
        (folder / "odd.parquet").unlink()


def test_an_idle_model_is_told_what_to_do_before_a_fleet_can_be_sized(site: Site) -> None:
    page = httpx.get(f"{site.url}/fleet", params={"model": "idle"}).text
    assert "What to do first" in page
    assert "No replica has reported a T(b) yet." in page
    assert httpx.get(f"{site.url}/fleet.json", params={"model": "idle"}).json()["replicas_with"] is None


def test_an_idle_model_is_explained_in_words(site: Site) -> None:
    page = httpx.get(f"{site.url}/overview", params={"model": "idle"}).text
    assert "No requests yet" in page
    assert "no night has been activated for this model" in page
    assert "No replica has reported a T(b) yet." in page
    found = overview(site, model="idle")
    assert (found["requests"], found["hit_rate"], found["replicas_with"]) == (0, None, None)


def test_identifiers_are_text_and_never_markup_or_formulas(site: Site) -> None:
    page = httpx.get(f"{site.url}/overview", params={"model": "007"}).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    tables = overview(site, model="007")["tables"]
    assert isinstance(tables, dict)
    assert [row["entity"] for row in tables["latest"]["rows"]] == HOSTILE
    answer = httpx.get(f"{site.url}/overview.csv", params={"model": "007", "table": "latest"})
    assert answer.headers["content-disposition"] == 'attachment; filename="overview-latest-007-24h.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["entity"] for row in rows] == ["'=HYPERLINK(1)" if e.startswith("=") else e for e in HOSTILE]


def test_every_table_downloads_and_agrees_with_the_json(site: Site) -> None:
    tables = overview(site)["tables"]
    assert isinstance(tables, dict)
    for name, table in tables.items():
        answer = httpx.get(f"{site.url}/overview.csv", params={"table": name})
        assert len(list(csv.DictReader(io.StringIO(answer.text, newline="")))) == len(table["rows"])
    whole = list(csv.DictReader(io.StringIO(httpx.get(f"{site.url}/overview.csv").text, newline="")))
    assert {row["table"] for row in whole} == {name for name, table in tables.items() if table["rows"]}


def test_a_new_file_shows_and_a_broken_one_is_counted(site: Site, data: Path) -> None:
    folder = hour_folder(data, "idle", NOW)
    (folder / "broken.parquet").write_bytes(b"PAR1 no PAR1")
    pq.write_table(log_table([{"time": NOW}] * 2), folder / "good.parquet")
    found = overview(site, model="idle", range="1h")
    assert found["requests"] == 2
    [aside] = found["files_set_aside"]  # type: ignore[misc] # a list, by the assertion that it unpacks
    assert aside["file"].endswith("broken.parquet")
    page = httpx.get(f"{site.url}/overview", params={"model": "idle", "range": "1h"}).text
    assert "1 file of this time range could not be read and is not counted" in page
    for path in folder.iterdir():
        path.unlink()
    assert overview(site, model="idle", range="1h")["requests"] == 0


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/overview?model=nope", 404, "The site shows delay, 007, idle."),
        ("/overview?model=%3Cb%3E", 404, "The site shows"),
        ("/overview?range=2w", 422, "range is one of 1h, 24h, 7d, 28d."),
        ("/overview.csv?table=nope", 404, "table is one of over_time"),
        ("/fleets", 404, "There is no such page."),
        ("/static/../app.py", 404, ""),
        ("/static/%2e%2e/app.py", 404, ""),
        ("/docs", 404, ""),
        ("/openapi.json", 404, ""),
    ],
)
def test_what_does_not_exist(site: Site, path: str, status: int, words: str) -> None:
    answer = httpx.get(site.url + path)
    assert answer.status_code == status
    assert words in answer.text
    assert "<b>" not in answer.text.replace("<b>delay", "")


def test_problems_of_exports_are_documents(site: Site) -> None:
    answer = httpx.get(f"{site.url}/overview.json", params={"model": "nope"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "unknown_model"


@pytest.mark.parametrize("path", ["/", "/overview", "/overview.csv", "/static/site.js", "/nope", "/healthz"])
def test_every_response_is_locked_down(site: Site, path: str) -> None:
    answer = httpx.get(site.url + path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")


def test_reads_only(site: Site, valkey: tuple[str, redis.Redis], data: Path) -> None:
    before = {key: valkey[1].dump(key) for key in valkey[1].keys("*")}
    files = sorted(path for path in data.rglob("*.parquet"))
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert httpx.request(method, f"{site.url}/overview").status_code == 405
    assert httpx.head(f"{site.url}/overview").status_code == 200
    assert {key: valkey[1].dump(key) for key in valkey[1].keys("*")} == before
    assert sorted(path for path in data.rglob("*.parquet")) == files


def test_health(site: Site) -> None:
    assert httpx.get(f"{site.url}/healthz").json() == {"status": "alive"}
    assert httpx.get(f"{site.url}/readyz").json() == {"ready": True, "problems": {}}
    assert httpx.get(site.url + "/").headers["location"] == "/overview"


def test_bad_entries_in_redis_are_told(site: Site, valkey: tuple[str, redis.Redis]) -> None:
    client = valkey[1]
    client.set(routes_key("idle"), b"{not json")
    client.hset(REPLICAS_KEY, "bad", b"[]")
    try:
        assert "routes document cannot be read" in str(overview(site, model="idle")["generation_problem"])
        assert overview(site, model="delay")["replicas_with"] == 1
    finally:
        client.delete(routes_key("idle"))
        client.hdel(REPLICAS_KEY, "bad")


def test_without_redis_the_log_is_still_shown(data: Path) -> None:
    with running_site(data, REDIS_URL="redis://127.0.0.1:9/0") as site:
        begun = time.monotonic()
        found = overview(site)
        assert time.monotonic() - begun < 5
        assert found["requests"] == 4000
        assert found["generation_problem"] == "Redis cannot be read (ConnectionError)."
        assert site.errors == []


def test_misspelt_settings_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="did you mean MONITOR_DATA_URL"),
        running_site(tmp_path, DATA_URI="x"),
    ):
        pass
