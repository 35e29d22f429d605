"""The Releases page over HTTP: a real process, real nights in a real Valkey and on disk."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis

from batch_scoring.publishing.activate import rollback
from batch_scoring.publishing.document import read_document
from batch_scoring.runs import Refused
from schemas.keys import history_key, routes_key
from tests.support.redis_server import RedisServer
from tests.support.released import Released
from tests.support.site import Site, running_site

FIRST, SECOND, THIRD, REFUSED = (f"202611{day}T0200Z-1" for day in (26, 27, 28, 29))
HOSTILE = "<b>anna</b>"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Not the one of the other modules: a test freezes it."""
    with RedisServer() as running:
        yield running


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, server: RedisServer) -> Iterator[Released]:
    """Three activated nights, a rollback from the third, and one that was refused by its verification."""
    with redis.Redis.from_url(server.url) as client:
        found = Released(tmp_path_factory.mktemp("releases"), server.url, client)
        _make(found)
        yield found


def _make(found: Released) -> None:
    found.active(26, 1)
    found.active(27, 2)
    found.active(28, 3)
    rollback(found.settings, "delay", "=wrong labels", by=HOSTILE)
    found.publish(29, 4).refuse("verify", Refused("bucket 0 is not what was scored"))


@pytest.fixture(scope="module")
def site(made: Released) -> Iterator[Site]:
    with running_site(made.folder / "data", REDIS_URL=made.redis_url, MODELS='["delay", "idle"]') as running:
        yield running
        assert running.errors == []


def releases(site: Site, model: str = "delay") -> dict[str, object]:
    answer = httpx.get(f"{site.url}/releases.json", params={"model": model})
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()
    return found


def rows(found: dict[str, object], table: str) -> list[dict[str, object]]:
    tables = found["tables"]
    assert isinstance(tables, dict)
    made_rows: list[dict[str, object]] = tables[table]["rows"]
    return made_rows


def test_every_generation_has_its_state_sizes_gates_and_who_activated_it(site: Site) -> None:
    found = rows(releases(site), "releases")
    assert [(row["generation"], row["state"]) for row in found] == [
        (SECOND, "active"),
        (REFUSED, "refused"),
        (THIRD, "kept for rollback"),
        (FIRST, "loaded"),
    ]
    active, refused, third, _ = found
    assert (active["rows"], active["megabytes"], active["version"]) == (40, 2.5, "1")
    assert (active["verify"], active["gate"]) == ("passed", "passed with warnings")
    assert (active["activated_by"], active["why"]) == (HOSTILE, "rollback: =wrong labels")
    assert (third["why"], str(third["activated_at"]).endswith("Z")) == (f"activate {THIRD}", True)
    assert (refused["verify"], refused["gate"], refused["activated_by"]) == ("refused", "not run", None)


def test_what_is_active_since_when_and_what_a_rollback_goes_to(site: Site) -> None:
    found = releases(site)
    assert (found["active_generation"], found["rollback_generation"]) == (SECOND, THIRD)
    assert (found["activated_by"], found["problems"]) == (HOSTILE, [])
    assert 0 <= float(str(found["active_age_s"])) < 120
    page = httpx.get(f"{site.url}/releases").text
    for words in (SECOND, "A rollback goes to <b>20261128T0200Z-1</b>", "rollback: =wrong labels"):
        assert words in page
    assert HOSTILE not in page
    assert "&lt;b&gt;anna&lt;/b&gt;" in page


def test_gates_and_changes_have_their_words(site: Site) -> None:
    found = releases(site)
    gates = {(row["generation"], row["gate"]): row for row in rows(found, "gates")}
    assert gates[REFUSED, "verify"]["words"] == "bucket 0 is not what was scored"
    assert "40 read back" in str(gates[SECOND, "verify"]["words"])
    assert (REFUSED, "gate") not in gates
    history = rows(found, "history")
    assert [row["generation"] for row in history] == [SECOND, THIRD, SECOND, FIRST]
    text = httpx.get(f"{site.url}/releases.csv", params={"table": "releases"}).text
    assert len(list(csv.DictReader(io.StringIO(text, newline="")))) == len(rows(found, "releases")) == 4
    assert "'=wrong" not in text  # the cell begins with a word, so it is no formula


def test_both_pages_link_to_each_other(site: Site) -> None:
    for path in ("/overview", "/releases"):
        page = httpx.get(site.url + path).text
        assert 'href="/overview?model=delay' in page
        assert 'href="/releases?model=delay' in page


def test_a_model_without_a_night_is_explained(site: Site) -> None:
    page = httpx.get(f"{site.url}/releases", params={"model": "idle"}).text
    assert "Nothing is active yet" in page
    assert "No night has begun for this model yet." in page


def test_reads_only(site: Site, made: Released) -> None:
    before = {key: made.redis.dump(key) for key in made.redis.keys("*")}
    files = {path: path.stat().st_mtime_ns for path in (made.folder / "data").rglob("*.json")}
    assert httpx.post(f"{site.url}/releases").status_code == 405
    assert httpx.get(f"{site.url}/releases").status_code == 200
    assert {key: made.redis.dump(key) for key in made.redis.keys("*")} == before
    assert {path: path.stat().st_mtime_ns for path in (made.folder / "data").rglob("*.json")} == files


def test_what_is_broken_is_told_or_left_out(site: Site, made: Released) -> None:
    raw, lines = made.redis.get(routes_key("delay")), made.redis.lrange(history_key("delay"), 0, -1)
    report: Path = made.folder / "data" / "runs" / "model=delay" / FIRST / "report-verify.json"
    content = report.read_bytes()
    try:
        made.redis.lpush(history_key("delay"), b"{no json")
        report.write_bytes(b"{")
        found = releases(site)
        assert len(rows(found, "history")) == 4
        assert [row["verify"] for row in rows(found, "releases") if row["generation"] == FIRST] == ["not run"]
        made.redis.set(routes_key("delay"), b"{no json")
        assert "The routes document cannot be read" in str(releases(site)["problems"])
    finally:
        report.write_bytes(content)
        assert raw is not None
        made.redis.set(routes_key("delay"), raw)
        made.redis.delete(history_key("delay"))
        made.redis.rpush(history_key("delay"), *lines)
    assert read_document(made.redis, "delay") is not None


def test_without_redis_it_says_so_and_shows_the_run_folders(site: Site, server: RedisServer) -> None:
    server.freeze()
    try:
        found = releases(site)
        page = httpx.get(f"{site.url}/releases").text
    finally:
        server.thaw()
    [problem] = found["problems"]  # type: ignore[misc] # a list, by the assertion that it unpacks
    assert problem.startswith("Redis cannot be read (TimeoutError), so what is active is not known")
    assert (found["active_generation"], rows(found, "history")) == (None, [])
    assert {row["generation"]: row["state"] for row in rows(found, "releases")} == {
        REFUSED: "refused",
        THIRD: "unknown",
        SECOND: "unknown",
        FIRST: "unknown",
    }
    assert rows(found, "gates")
    assert problem in page
    assert releases(site)["active_generation"] == SECOND
