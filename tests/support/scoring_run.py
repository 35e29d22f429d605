"""Runs as the steps before `score` leave them, without those steps and without a server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.runs import Role, Run
from batch_scoring.scoring.__main__ import main as score_main
from runtime.program import load_program
from schemas.arrow import HOT_SET, features_schema
from schemas.bundle import Bundle, load_transform
from schemas.codec import Float32Array, unpack
from schemas.outputs import calibrate

AS_OF = datetime(2026, 11, 28, 2, tzinfo=UTC)


@dataclass(frozen=True)
class ScoringRun:
    """A run of a bundle on disk; `features` are those that were given, by entity."""

    run: Run
    bundle: Bundle
    features: Mapping[str, Mapping[str, object]]

    @property
    def folder(self) -> Path:
        return Path(self.run.url).parent

    def environment(self) -> dict[str, str]:
        root = self.folder.parent
        return {
            "BATCH_DATA_URL": str(root / "data"),
            "BATCH_ALLOWED_BUNDLE_URLS": orjson.dumps([str(root)]).decode(),
            "BATCH_CACHE_DIR": str(root / "cache"),
        }

    def score(self) -> int:
        return score_main(["--run", self.run.url])

    def report(self) -> dict[str, object]:
        return self.run.need_report("score")

    def scores(self) -> dict[str, Sequence[float]]:
        """Outputs by entity, unpacked as a reader would."""
        table = pq.read_table(self.folder / "scores", columns=["entity", "packed"])
        width = self.bundle.manifest.output.stored_width
        return {
            entity: unpack(packed, entity.encode(), self.run.ordinal, width).outputs
            for entity, packed in zip(table["entity"].to_pylist(), table["packed"].to_pylist(), strict=True)
        }

    def bare(self, entities: Sequence[str]) -> Float32Array:
        """(n, W) what a bare torch call gives."""
        manifest = self.bundle.manifest
        done = load_transform(self.bundle.folder, manifest).records([self.features[one] for one in entities])
        assert not done.problems
        program = load_program(self.bundle.folder, manifest)
        batches = np.array_split(np.arange(done.rows), -(-done.rows // manifest.max_batch_rows))
        return calibrate(manifest.output, np.concatenate([program(done.take(rows)) for rows in batches]))

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name.startswith("_"))


def scoring_run(
    folder: Path, bundle: Bundle, rows: Mapping[str, Mapping[str, object]], hot: Sequence[str], files: int = 1
) -> ScoringRun:
    """Writes `run.json`, the features of `rows` by entity in so many files, and the hot set."""
    folder.mkdir(parents=True)
    run = Run(
        model=bundle.manifest.name,
        version=bundle.manifest.version,
        bundle_url=str(bundle.folder),
        bundle_digest=bundle.digest,
        as_of=AS_OF,
        generation="20261128T0200Z-1",
        ordinal=3,
        started_at_ms=1_790_000_000_123,
        run_key="night",
        token=1,
        role=Role.STABLE,
        url=str(folder / "run.json"),
    )
    run.save()
    schema = features_schema(bundle.manifest.features)
    (folder / "features").mkdir()
    records = [{"entity": entity, "as_of": AS_OF, **features} for entity, features in rows.items()]
    for place, share in enumerate(np.array_split(np.arange(len(records)), files)):
        table = pa.Table.from_pylist([records[row] for row in share.tolist()], schema)
        pq.write_table(table, folder / "features" / f"part-{place:05d}.parquet")
    (folder / "hotset").mkdir()
    table = pa.table({"entity": list(hot), "weight": np.ones(len(hot))}, schema=HOT_SET)
    pq.write_table(table, folder / "hotset" / "part-0.parquet")
    return ScoringRun(run, bundle, rows)


def linear_rows(count: int) -> dict[str, dict[str, object]]:
    """Features for `tests.support.bundles.linear_bundle` of entities `F000000` and so on."""
    return {
        f"F{row:06d}": {"distance": 10.0 * row, "delay": float(row % 7) if row % 5 else None, "airline": "DL"}
        for row in range(count)
    }
