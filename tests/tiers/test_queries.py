"""Dashboards and alert rules beside what the running services expose, by their text and by a real Prometheus."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from infra.grafana.__main__ import main as write_dashboards
from infra.prometheus.programs import find
from tests.support.api_process import wait_for
from tests.support.redis_server import free_port
from tests.support.scraped import Scraped
from tests.tiers.conftest import Tiers
from tests.tiers.queries import RULES, dashboard_queries, problems, rules

PROMTOOL, PROMETHEUS = find("promtool"), find("prometheus")
needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="no Prometheus: `make setup-browser` gets it by apt"
)


@pytest.fixture(scope="module")
def exposed(asked: list[Scraped]) -> dict[str, set[str]]:
    found = {"up": set[str]()}
    for scraped in asked:
        found |= scraped.labels_by_name
    return found | {rule["record"]: {"model"} for rule in rules() if "record" in rule}


@pytest.fixture(scope="module")
def values(asked: list[Scraped]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for scraped in asked:
        for _, labels in scraped.series:
            for label, value in labels:
                found.setdefault(label, set()).add(value)
    return found


def test_every_query_asks_for_what_is_exposed(exposed: dict[str, set[str]], values: dict[str, set[str]]) -> None:
    queries = [*dashboard_queries(), *(rule["expr"] for rule in rules())]
    assert len(queries) > 50
    wrong = {query: found for query in queries if (found := list(problems(query, exposed, values)))}
    assert wrong == {}


def test_the_check_finds_what_is_wrong(exposed: dict[str, set[str]], values: dict[str, set[str]]) -> None:
    for query, said in (
        ("rate(hotset_answer_total[5m])", "hotset_answer_total is not exposed"),
        ('hotset_answers_total{path="live"}', "hotset_answers_total has no label path"),
        ('hotset_level{part="redis",what="open"}', "hotset_level never has part redis"),
        ('hotset_answers_total{source=~"live|computed"}', "hotset_answers_total never has source computed"),
        ("sum by (model, path) (hotset_answers_total)", "nothing has a label path"),
    ):
        assert list(problems(query, exposed, values)) == [said]


def test_the_dashboards_are_current() -> None:
    assert write_dashboards(["--check"]) == 0


@needs_prometheus
@pytest.mark.parametrize(
    "words", [("check", "config", "prometheus.yml"), ("test", "rules", "hotset.rules_test.yml")], ids=" ".join
)
def test_promtool_finds_nothing_wrong(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *words], cwd=RULES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def prometheus(
    asked: list[Scraped], tiers: Tiers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A real one that scrapes all, configured as `infra/prometheus` has it but for the places and the pace."""
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    config = yaml.safe_load((RULES.parent / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    config["rule_files"] = [str(RULES)]
    for job, base in zip(config["scrape_configs"], tiers.addresses, strict=True):
        job["static_configs"] = [{"targets": [base.removeprefix("http://")]}]
    _write(folder / "prometheus.yml", config)
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(PROMETHEUS), *words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1") as client:
            yield client
    finally:
        process.kill()
        process.wait()


def _write(path: Path, document: object) -> None:
    path.write_text(yaml.safe_dump(document))


@needs_prometheus
@pytest.mark.long
def test_every_dashboard_query_has_an_answer(prometheus: httpx.Client, tiers: Tiers) -> None:
    def answers(query: str) -> int:
        try:
            answer = prometheus.get("/query", params={"query": query})
        except httpx.TransportError:
            return 0  # it starts
        assert answer.status_code in (200, 503), (query, answer.text)
        return len(answer.json()["data"]["result"]) if answer.status_code == 200 else 0

    waiting = [*dashboard_queries(), "hotset:hit_rate:rate5m", "hotset:live_p99_seconds:rate5m"]

    def left() -> list[str]:
        tiers.get("e4")  # a rate of nothing is no hit rate
        waiting[:] = [query for query in waiting if not answers(query)]
        return waiting

    try:
        wait_for(lambda: not left(), 10, "an answer to each query")
    except AssertionError:
        pytest.fail(f"no answer to {waiting}")
    groups = prometheus.get("/rules").json()["data"]["groups"]
    states = {rule["name"]: (rule["health"], rule.get("state")) for group in groups for rule in group["rules"]}
    assert len(states) == len(rules())
    assert {health for health, _ in states.values()} == {"ok"}, states
    firing = {name for name, (_, state) in states.items() if state == "firing"}
    assert firing == set()
