"""A small night for tests: tables, a log, a bundle, and the jobs' own `main` functions to run on them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import redis

from batch_scoring.features.__main__ import main as features_main
from batch_scoring.hotset.__main__ import main as select_main
from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.publishing.publish_job import main as publish_main
from batch_scoring.scoring.__main__ import main as score_main
from runtime.program import load_program
from schemas import keys
from schemas.bundle import read_folder
from schemas.codec import Float32Array, Prediction, unpack
from schemas.features import FeatureTransform
from schemas.outputs import calibrate
from schemas.routes import RoutesDocument
from tests.support.bundles import linear_bundle
from tests.support.request_log import log_table, write_log

QUERY = """
SELECT s.entity, d.as_of, s.distance, s.delay, s.airline, 'ignored' AS another_column
FROM days d JOIN flights s ON s.known_at < d.as_of
"""
AS_OF = datetime(2026, 11, 28, 2, 0, tzinfo=UTC)
SPARK_STEPS = {"features": features_main, "select": select_main, "score": score_main, "publish": publish_main}
STEPS = ("features", "select", "score", "publish", "verify", "gate", "activate", "retire")


@dataclass
class SmallNight:
    """`begin`, then `run_all` or single `step`s, as the DAG would call them."""

    folder: Path
    redis_url: str
    redis: "redis.Redis"
    model: str = "tiny"
    version: str = "1"
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def environment(self) -> dict[str, str]:
        return {
            "BATCH_REDIS_URL": self.redis_url,
            "BATCH_DATA_URL": str(self.data),
            "BATCH_ALLOWED_BUNDLE_URLS": json.dumps([str(self.folder / "bundles")]),
            "BATCH_CACHE_DIR": str(self.folder / "cache"),
            "BATCH_HOT_FRACTION": "0.5",
            "BATCH_RETIRE_AFTER_S": "0",
        }

    def bundle(self, version: str | None = None) -> Path:
        folder = self.folder / "bundles" / (version or self.version)
        if not folder.exists():
            linear_bundle(folder, version or self.version, self.model)
        return folder

    def write_tables(self, entities: Sequence[str], query: str = QUERY, **columns: Sequence[object]) -> None:
        """One row an entity, with features of its own."""
        count = len(entities)
        rows = {
            "entity": list(entities),
            "known_at": [AS_OF - timedelta(days=40)] * count,
            "distance": [100.0 + 10 * i for i in range(count)],
            "delay": [float(i % 7) if i % 5 else None for i in range(count)],
            "airline": [("AA", "DL", "UA", "ZZ")[i % 4] for i in range(count)],
        }
        folder = self.data / "tables" / "flights"
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.table(rows | columns)
        place = table.schema.get_field_index("known_at")
        table = table.set_column(place, "known_at", table["known_at"].cast(pa.timestamp("us", "UTC")))
        pq.write_table(table, folder / "part-0.parquet")
        (self.data / "tables" / "features.sql").write_text(query)

    def write_log(self, requests: Mapping[str, int], at: datetime = AS_OF - timedelta(hours=3)) -> None:
        """So many answered requests for each entity."""
        rows = [
            {"time": at, "entity": entity, "status": 200, "request_id": f"r{i}", "total_us": 900}
            for entity, count in requests.items()
            for i in range(count)
        ]
        write_log(self.data, self.model, log_table(rows), name=f"log-{len(rows)}")

    def begin(
        self, run_key: str = "night", as_of: datetime = AS_OF, version: str | None = None
    ) -> dict[str, object]:
        """The run of that version, which is named to it."""
        return self.begin_night("--bundle", str(self.bundle(version)), run_key=run_key, as_of=as_of)[0]

    def begin_night(self, *words: str, run_key: str = "night", as_of: datetime = AS_OF) -> list[dict[str, object]]:
        """All runs that `begin` makes when it is called with these words."""
        out = StringIO()
        call = ["begin", "--model", self.model, "--run-key", run_key, *words]
        with redirect_stdout(out):
            assert publishing_main([*call, "--as-of", as_of.isoformat()]) == 0
        begun: list[dict[str, object]] = json.loads(out.getvalue().splitlines()[-1])["runs"]
        return begun

    def step(self, name: str, begun: Mapping[str, object]) -> int:
        call = ["--run", str(begun["run"])]
        if name in SPARK_STEPS:
            return SPARK_STEPS[name](call)
        return publishing_main([name, *call, "--token", str(begun["token"])])

    def run_all(self, begun: Mapping[str, object], until: str = "retire") -> None:
        for name in STEPS[: STEPS.index(until) + 1]:
            assert self.step(name, begun) == 0, name

    def report(self, begun: Mapping[str, object], step: str) -> dict[str, object]:
        path = Path(str(begun["run"])).parent / f"report-{step}.json"
        report: dict[str, object] = orjson.loads(path.read_bytes())
        return report

    def routes(self) -> RoutesDocument | None:
        raw = self.redis.get(keys.routes_key(self.model))
        return None if raw is None else RoutesDocument.model_validate_json(raw)

    def stored(self, begun: Mapping[str, object]) -> dict[str, Prediction]:
        """What Redis holds for the hot entities of a run, read as a client would."""
        run = orjson.loads(Path(str(begun["run"])).read_bytes())
        report = self.report(begun, "publish")
        hot = pq.read_table(Path(str(begun["run"])).parent / "hotset")["entity"].to_pylist()
        found = {}
        for entity in hot:
            raw = entity.encode()
            bucket = keys.bucket_of(raw, int(str(report["buckets"])))
            key = keys.bucket_key(self.model, run["version"], run["generation"], bucket)
            value = self.redis.hget(key, keys.field_of(raw))  # type: ignore[arg-type]  # bytes are fine
            if value is not None:
                found[entity] = unpack(value, raw, run["ordinal"], 2)  # type: ignore[arg-type]
        return found

    def bare(self, begun: Mapping[str, object], entities: Sequence[str]) -> Float32Array:
        """(n, 2) what a bare torch call gives for the entities' feature rows."""
        folder = self.bundle()
        manifest = read_folder(folder).manifest
        rows = pq.read_table(Path(str(begun["run"])).parent / "features").to_pylist()
        by_entity = {row["entity"]: {name: row[name] for name in manifest.feature_names} for row in rows}
        done = FeatureTransform(manifest).records([by_entity[entity] for entity in entities])
        assert not done.problems
        return calibrate(manifest.output, load_program(folder, manifest)(done.tensors))
