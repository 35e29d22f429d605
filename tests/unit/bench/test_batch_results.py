"""The figures of the benchmarks of scoring and loading from made-up runs, and their lines of JSON."""

from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.bench.load.summary import Latencies
from tests.bench.loading import results as loading
from tests.bench.loading.load import LoadRound
from tests.bench.loading.lookups import Watched
from tests.bench.loading.pipe import write_commands
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
    pairs = [(watched(2.0), watched(during_ms)) for during_ms in (3.0, 8.0, 2.0)]
    document = orjson.loads(loading.Results(loads=loads, lookups=pairs).to_json())
    assert document["load_entities_per_s"] == 250.0
    assert document["load_over_pipe"] == 0.25
    assert document["bytes_per_entity"] == 25.0
    assert document["lookup_p99_during_over_before"] == 1.5


def watched(p99_ms: float) -> Watched:
    return Watched(Latencies(10, 1.0, 1.0, p99_ms), 0, 0, 0.1)


def test_prepared_file_is_redis_protocol(tmp_path: Path) -> None:
    assert write_commands(tmp_path / "commands", [(b"k1", b"\r\n"), (b"key2", b"")]) == 2
    raw = (tmp_path / "commands").read_bytes()
    assert raw == b"*3\r\n$3\r\nSET\r\n$2\r\nk1\r\n$2\r\n\r\n\r\n*3\r\n$3\r\nSET\r\n$4\r\nkey2\r\n$0\r\n\r\n"
