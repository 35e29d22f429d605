"""The main job from real data to an answer: sources add up, and every answer is the one bare torch gives."""

import json
from collections import Counter

import httpx
import pyarrow.parquet as pq
import pytest
from redis import Redis

from infra.demo.run import MODEL, DemoOptions, DemoOutcome
from infra.local.stack import LocalStack
from schemas.names import run_path
from tests.e2e.bare_torch import Expected

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CONTRACT_KEYS = (
    *("requests", "errors", "share_precomputed", "share_cached", "share_live"),
    *("hit_p50_ms", "hit_p99_ms", "live_p50_ms", "live_p99_ms", "hot_entity_share", "hot_traffic_share"),
    *("replicas_without", "replicas_with", "max_abs_diff_hit_vs_live", "wall_s"),
)


def test_every_lookup_is_answered_and_sources_add_up(demo: DemoOutcome) -> None:
    measured = demo.measured
    assert measured.errors == 0
    assert measured.requests == len(demo.lookups)
    assert measured.share_precomputed + measured.share_cached + measured.share_live == pytest.approx(1)
    counts = Counter(one.source for one in demo.result.answered)
    assert counts["precomputed"] > 0
    assert counts["live"] > 0


def test_known_entities_get_the_value_that_bare_torch_gives(demo: DemoOutcome, expected: Expected) -> None:
    assert expected.wrong(list(demo.lookups), demo.result.answered) == []


def test_hits_are_exactly_the_hot_set(demo: DemoOutcome) -> None:
    # A busy machine may make a look-up overrun its budget; then the answer is live, and says why. It is written
    # back, and answers that entity's next requests.
    reasons = ("redis_timeout", "breaker_open")
    answered = demo.result.answered
    overran = {demo.lookups[one.index].entity for one in answered if one.answer["miss_reason"] in reasons}
    for one in answered:
        entity = demo.lookups[one.index].entity
        is_hot = entity in demo.night.hot
        assert one.answer["version"]
        if one.source == "precomputed":
            assert is_hot, one.answer
            assert one.answer["generation"] == demo.night.generation
        elif is_hot:
            is_written_back = one.source == "cached" and entity in overran
            assert is_written_back or one.answer["miss_reason"] in reasons, one.answer


def test_hit_and_live_agree_within_tolerance(demo: DemoOutcome, expected: Expected) -> None:
    assert demo.measured.compared_entities > 50
    largest = max(10**-output.decimals for output in expected.manifest.output.outputs)
    assert demo.measured.max_abs_diff_hit_vs_live <= largest * 1.01


def test_the_hot_set_is_a_twentieth_of_the_known_and_most_of_the_traffic(demo: DemoOutcome) -> None:
    assert demo.measured.hot_entity_share == pytest.approx(0.05, abs=0.001)
    assert demo.measured.hot_traffic_share > 0.3
    assert demo.measured.replicas_with < demo.measured.replicas_without


def test_the_figures_have_their_names(demo: DemoOutcome, options: DemoOptions) -> None:
    figures = json.loads((options.settings.state / "demo.json").read_text())
    assert set(CONTRACT_KEYS) <= figures.keys()
    assert all(isinstance(figures[key], int | float) for key in CONTRACT_KEYS)


def test_every_step_of_the_night_left_its_report(demo: DemoOutcome, options: DemoOptions) -> None:
    folder = options.settings.data / run_path(MODEL, demo.night.generation)
    reports = {path.stem for path in folder.glob("report-*.json")}
    assert {
        f"report-{step}" for step in ("features", "select", "score", "publish", "verify", "gate", "activate")
    } <= reports
    assert pq.read_table(folder / "hotset").num_rows == demo.measured.hot_entities


def test_buckets_stay_listpacks(demo: DemoOutcome, options: DemoOptions) -> None:
    with Redis.from_url(options.settings.redis_url) as redis:
        keys = list(redis.scan_iter(f"hs:{MODEL}:g:*:{demo.night.generation}:[0-9]*"))
        assert keys
        assert {redis.object("ENCODING", key) for key in keys} == {b"listpack"}


def test_the_site_counts_the_replay(demo: DemoOutcome, options: DemoOptions) -> None:
    with httpx.Client(base_url=options.settings.url("monitor"), follow_redirects=True) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "precomputed" in page.text


def test_the_stack_is_ready_and_a_second_start_changes_nothing(demo: DemoOutcome, options: DemoOptions) -> None:
    stack = LocalStack(options.settings)
    before = {name: stack.pid(name) for name in stack.programs}
    stack.start()
    assert {name: stack.pid(name) for name in stack.programs} == before
    assert set(stack.states().values()) == {"ready"}
