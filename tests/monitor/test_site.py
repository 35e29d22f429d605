"""The site over HTTP: a real process, real files, a real Valkey."""

import csv
import io
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
from tests.support.site import Site, running_site

HOSTILE = ["<script>alert(1)</script>", "=HYPERLINK(1)", "007", "9007199254740993", 'a"b', "é", " a"]
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
    announce(client, "n1", model="delay", version="7", tau0_ms=6.0, alpha_ms=1.2, max_batch_rows=64, device="cpu")
    models = '["delay", "007", "idle"]'
    price = {"PRICE_PER_REPLICA_HOUR": "1.5", "CURRENCY": "EUR"}
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
        "6 + 1.2 b ms, b ≤ 64",
        "0.6 × 36 rows / T(36)",
        "never from the mean hit rate",
        "at 1.5 EUR a replica-hour",
    ):
        assert words in page


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
        ("/fleet", 404, "There is no such page."),
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
