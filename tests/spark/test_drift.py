"""The drift job over a real log: files of several kinds, hits that get their features from their night, alarms."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from batch_scoring.drift.__main__ import main
from runtime.program import load_program
from schemas.arrow import DRIFT, features_schema
from schemas.bundle import Bundle
from schemas.features import FeatureTransform
from schemas.names import run_path
from schemas.outputs import calibrate
from tests.support.bundles import AIRLINES, MODEL, linear_bundle
from tests.support.request_log import hour_folder, log_table, utc, write_log

pytestmark = [pytest.mark.spark, pytest.mark.long]

START, END = utc("2026-11-21"), utc("2026-11-28")
GENERATION = "20261120T0200Z-1"
ROWS = 1_200
Record = dict[str, Any]


def drawn(random: np.random.Generator, rows: int, delay: float = 0.0) -> list[Record]:
    return [
        {
            "distance": float(random.uniform(100, 2_000)),
            "delay": float(random.normal(delay, 10)) if random.random() > 0.05 else None,
            "airline": str(random.choice(AIRLINES)),
        }
        for _ in range(rows)
    ]


class Logged:
    """A data root with a bundle, a night's features and a log; `run` is the job."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.random = np.random.default_rng(1)
        trained = drawn(self.random, 5_000)
        columns: dict[str, list[object]] = {name: [one[name] for one in trained] for name in trained[0]}
        self.bundle: Bundle = linear_bundle(folder / "bundles" / "1", columns=columns)
        self._program = load_program(self.bundle.folder, self.bundle.manifest)

    def rows(self, records: Sequence[Record], source: str, logged: bool = True) -> list[dict[str, object]]:
        """Rows of entities of their own, in one hour of each day."""
        manifest = self.bundle.manifest
        transform, most = FeatureTransform(manifest), manifest.max_batch_rows
        outputs = np.concatenate(
            [
                calibrate(manifest.output, self._program(transform.records(records[start : start + most]).tensors))
                for start in range(0, len(records), most)
            ]
        )
        return [
            {
                "time": START + timedelta(days=place % 7, minutes=place % 60),
                "request_id": f"{source}-{place}",
                "entity": f"{source}-{place}",
                "version": "1",
                "generation": GENERATION if source == "precomputed" else None,
                "source": source,
                "inputs": orjson.dumps(record).decode() if logged else None,
                "outputs": outputs[place].tolist(),
            }
            for place, record in enumerate(records)
        ]

    def night(self, records: Sequence[Record]) -> None:
        rows = [{"entity": f"precomputed-{i}", "as_of": START, **one} for i, one in enumerate(records)]
        folder = self.data / run_path(MODEL, GENERATION) / "features"
        folder.mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist(rows, features_schema(self.bundle.manifest.features)), folder / "a.parquet"
        )

    def run(self, *words: str) -> int:
        window = ["--from", f"{START:%Y-%m-%d}", "--to", f"{END:%Y-%m-%d}"]
        return main(["--model", MODEL, "--bundle", str(self.bundle.folder), *window, *words])

    @property
    def results(self) -> Path:
        return self.data / "drift" / f"model={MODEL}" / "date=2026-11-27"

    def report(self) -> Mapping[str, Any]:
        (path,) = self.results.glob("*.json")
        report: Mapping[str, Any] = orjson.loads(path.read_bytes())
        return report

    def findings(self) -> pa.Table:
        (path,) = self.results.glob("*.parquet")
        return pq.read_table(path)


@pytest.fixture
def logged(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Logged:
    monkeypatch.setenv("BATCH_DATA_URL", str(tmp_path / "data"))
    monkeypatch.setenv("BATCH_ALLOWED_BUNDLE_URLS", orjson.dumps([str(tmp_path / "bundles")]).decode())
    monkeypatch.setenv("BATCH_CACHE_DIR", str(tmp_path / "cache"))
    return Logged(tmp_path)


def named(report: Mapping[str, Any], level: str = "alarms", side: str = "input") -> list[tuple[str, str]]:
    return [(one["population"], one["name"]) for one in report[level] if one["side"] == side]


def test_a_shift_in_the_tail_only_is_found_and_named_in_a_log_of_all_kinds_of_files(logged: Logged) -> None:
    hot = drawn(logged.random, ROWS)
    logged.night(hot)
    # Hits were logged without inputs; those of the tail have a delay that is one deviation longer.
    hits = logged.rows(hot, "precomputed", logged=False)
    tail = logged.rows(drawn(logged.random, ROWS, delay=10.0), "live")
    others = [{**row, "version": "2", "request_id": "other"} for row in tail[:50]]
    unsampled = [{**row, "inputs": None, "outputs": None} for row in tail]
    errors = [{"time": START, "status": 503, "source": None, "request_id": f"e{i}"} for i in range(9)]
    write_log(logged.data, MODEL, log_table([*hits, *others, *unsampled, *errors]), name="hits")
    rewrite_as_older(write_log(logged.data, MODEL, log_table(tail), name="tail"))
    add_strange_files(logged.data, hits[0], START + timedelta(hours=5))

    assert logged.run("--fail-on-alarm") == 3
    report = logged.report()
    assert named(report) == [("tail", "delay")]
    assert {population for population, _ in named(report, side="output")} <= {"tail"}
    assert report["rows"] == {"hits": ROWS, "tail": ROWS}
    assert (report["inputs_from_the_night"], report["rows_of_other_versions"]) == (ROWS, {"2": 50})
    assert [name.rpartition("/")[2] for name in report["log_files_aside"]] == ["damaged.parquet"]
    findings = logged.findings()
    assert findings.schema.equals(DRIFT)
    assert findings.schema.metadata == DRIFT.metadata
    assert findings.num_rows == 2 * 5
    row = next(row for row in findings.to_pylist() if (row["population"], row["name"]) == ("tail", "delay"))
    assert row["psi"] > row["psi_threshold"]
    assert sum(row["counts"]) + row["outside"] + row["nulls"] == ROWS
    assert len(row["counts"]) == len(row["baseline_counts"]) == len(row["edges"]) - 1


def rewrite_as_older(paths: Sequence[Path]) -> None:
    """Doubles for floats, nanoseconds, columns in another order, one more and some less."""
    for path in paths:
        table = pq.read_table(path)
        older = {
            "outputs": table["outputs"].cast(pa.list_(pa.float64())),
            **{name: table[name].dictionary_encode() for name in ("source", "version")},
            "one_more": pa.array([1] * len(table)),
            **{name: table[name] for name in ("status", "inputs", "entity", "request_id")},
            "time": table["time"].cast(pa.timestamp("ns", "UTC")),
        }
        pq.write_table(pa.table(older), path)


def add_strange_files(data: Path, row: Mapping[str, object], at: datetime) -> None:
    """One of before there were samples, one cut short in its pages, and one that is still being written."""
    folder = hour_folder(data, MODEL, at)
    table = log_table([{**row, "time": at}] * 500)
    pq.write_table(table.select(["time", "entity", "status", "source"]), folder / "old.parquet")
    (folder / ".new.parquet.part").write_bytes(b"PAR1")
    pq.write_table(table, folder / "damaged.parquet", compression="none", use_dictionary=False)
    raw = bytearray((folder / "damaged.parquet").read_bytes())
    raw[4 : len(raw) // 2] = bytes(len(raw) // 2 - 4)
    (folder / "damaged.parquet").write_bytes(raw)


def test_an_empty_log_and_bad_words(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    assert [logged.run(), logged.run()] == [0, 0]
    assert len(list(logged.results.iterdir())) == 2  # what a window said before is replaced
    assert (logged.report()["alarms"], logged.report()["levels"]["too_few_rows"]) == ([], 10)
    assert logged.run("--from", "yesterday") == 2
    assert "'yesterday' is neither a date nor a time" in caplog.text
    assert logged.run("--from", "2026-12-01") == 2
    assert main(["--model", "other", "--bundle", str(logged.bundle.folder)]) == 2
    assert "is a bundle of the model tiny, not of other" in caplog.text
