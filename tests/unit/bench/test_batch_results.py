"""The figures of the benchmarks of scoring and loading from made-up runs, and their lines of JSON."""

from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.bench.loading import results as loading
from tests.bench.loading.load import LoadRound
from tests.bench.loading.lookups import Asked
from tests.bench.loading.pipe import write_commands
from tests.bench.loading.turns import Turn, turns_of
from tests.bench.scoring import results as scoring
from tests.bench.scoring.bare import BareRun
from tests.bench.scoring.product import SparkRun
from tests.bench.scoring.results import ModelResult

OUTPUTS = np.zeros((1000, 1), np.float32)


def spark_run(rows: int, seconds: float, peak_mb: float) -> SparkRun:
    cpu_s = {"driver": 0.001 * rows, "jvm": 0.001 * rows, "workers": 0.002 * rows}
    return SparkRun(rows, seconds, 2, cpu_s, peak_mb)


def model_result(name: str, peak_mb: float) -> ModelResult:
    bare = [BareRun(1000, seconds, 3.0, OUTPUTS) for seconds in (1.0, 2.0)]
    return ModelResult(name, 9.0, spark_run(100, 0.4, 100.0), [spark_run(1000, 2.0, peak_mb)], bare, 0, 0.0)


def test_scoring_is_told_beside_both_turns_of_the_bare_loop() -> None:
    found = model_result("demo", 110.0)
    assert found.bare_per_s == 750.0
    assert found.ratio == pytest.approx(500 / 750)
    assert found.marginal_ratio == pytest.approx(900 / 1.6 / 750)
    assert found.cpu_ratio == pytest.approx(3000 / 4000)


def test_scoring_tells_the_largest_growth_and_what_was_not_measured() -> None:
    found = scoring.Results(models=[model_result("demo", 110.0), model_result("mlp", 130.0)])
    document = orjson.loads(found.to_json())
    assert document["worker_rss_growth_10x_rows"] == pytest.approx(1.3)
    assert {"spark_over_bare_demo", "spark_over_bare_mlp"} <= document.keys()
    nothing = orjson.loads(scoring.Results().to_json())
    assert nothing["spark_over_bare_mlp"] is nothing["worker_rss_growth_10x_rows"] is None


def test_loading_counts_publish_and_verify_and_takes_medians_of_rounds() -> None:
    loads = [LoadRound(1000, 1.0, publish_s, 1.0, 25_000) for publish_s in (1.0, 3.0, 9.0)]
    document = orjson.loads(loading.Results(loads=loads).to_json())
    assert document["load_entities_per_s"] == 250.0
    assert document["load_over_pipe"] == 0.25
    assert document["bytes_per_entity"] == 25.0
    assert document["lookup_p99_during_over_before"] is None


def asked(slow: list[int]) -> Asked:
    """A look-up each 10 ms for 9 s: of 1 ms, of 3 ms from 2 s to 3 s, and from 5 s to 6 s; `slow` ones take 50."""
    due_s = np.arange(900) / 100
    second = due_s.astype(int)
    latency_ms = np.where((second == 2) | (second == 5), 3.0, 1.0)
    latency_ms[slow] = 50.0
    latency_ms[[10, 210]] = np.nan
    return Asked(due_s + 1000, latency_ms, errors=1, wrong=1, late_p99_ms=0.1)


TURNS = [Turn(1000.5, 1002.0, 1003.0), Turn(1003.2, 1005.0, 1006.0), Turn(1006.2, 1008.0, 1010.0)]


def test_look_ups_count_in_the_window_that_they_were_due_in_and_the_last_one_is_left_out_where_it_is_cut() -> None:
    found = turns_of(asked([]), TURNS, rows=500)
    assert [len(one) for one in found.before] == [150, 180]
    assert [len(one) for one in found.during] == [99, 100]
    assert (found.latency_before.p99_ms, found.latency_during.p99_ms) == (1.0, 3.0)
    assert (found.ratio, found.interval(), found.loaded_per_s) == (3.0, (3.0, 3.0), 500.0)


def test_what_slows_one_turn_alone_widens_the_interval_and_is_told() -> None:
    """Of a stall of six look-ups in one quiet window the pooled p99 knows, and that one window made it."""
    found = turns_of(asked([150, 151, 152, 153, 154, 155]), TURNS, rows=500)
    assert found.latency_before.p99_ms == 50.0
    low, high = found.interval()
    assert (low, high) == (0.06, 3.0)
    assert found.median_ratio == pytest.approx((0.06 + 3.0) / 2)
    document = orjson.loads(loading.Results(lookups=found, throttle_per_s=20_000).to_json())
    assert document["lookup_p99_during_over_before"] == pytest.approx(0.06)
    assert (document["lookup_p99_ratio_low"], document["lookup_p99_ratio_high"]) == (low, high)
    assert (document["lookup_turns"], document["throttle_per_s"]) == (2, 20_000)
    assert (document["lookup_errors"], document["wrong_answers"]) == (1, 1)


def test_prepared_file_is_redis_protocol(tmp_path: Path) -> None:
    assert write_commands(tmp_path / "commands", [(b"k1", b"\r\n"), (b"key2", b"")]) == 2
    raw = (tmp_path / "commands").read_bytes()
    assert raw == b"*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$2\r\n\r\n\r\n*3\r\n$3\r\nSET\r\n$4\r\nkey2\r\n$0\r\n\r\n"
