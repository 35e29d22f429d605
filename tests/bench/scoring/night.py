"""Nights for benchmarks: features and hot set written straight to disk, the steps by their own `main`s."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.publishing.publish_job import main as publish_main
from batch_scoring.scoring.__main__ import main as score_main
from schemas.arrow import HOT_SET, features_schema
from schemas.bundle import Bundle

AS_OF = "2026-11-28T02:00:00Z"
FILE_ROWS = 50_000
_MIN_FILES = 4  # so that the smallest night has a share for each of a few cores
_AS_OF_US = 1_795_831_200_000_000

# From the numbers of some rows to a column for each feature.
Columns = Callable[[np.ndarray], Mapping[str, object]]


class StepFailed(Exception):
    """A step of the product ended with another status than 0; its log says why."""


def entity_of(number: int) -> str:
    return f"e{number:08d}"


@dataclass(frozen=True)
class Begun:
    """A run on disk. `rows` of features, all of them hot."""

    url: str
    folder: Path
    model: str
    version: str
    generation: str
    rows: int

    @property
    def features(self) -> Path:
        return self.folder / "features"

    def report(self, step: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / f"report-{step}.json").read_bytes())
        return found

    def forget(self, *steps: str) -> None:
        """So that the next call does the step again."""
        for step in steps:
            (self.folder / f"report-{step}.json").unlink(missing_ok=True)


@contextmanager
def batch_environment(folder: Path, redis_url: str, **more: str) -> Iterator[None]:
    """What the steps read from the environment, while the block lasts; `more` are `BATCH_*` without the prefix."""
    own = {
        "redis_url": redis_url,
        "data_url": str(folder / "data"),
        "allowed_bundle_urls": json.dumps([str(folder)]),
        "cache_dir": str(folder / "cache"),
        **more,
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BATCH_")}
    with patch.dict(
        os.environ, kept | {f"BATCH_{name.upper()}": value for name, value in own.items()}, clear=True
    ):
        yield


def begin(bundle: Bundle, run_key: str, rows: int, columns: Columns) -> Begun:
    """A new run of the bundle's model with its first `rows` entities, as the steps before `score` leave one."""
    out = StringIO()
    words = ["begin", "--model", bundle.manifest.name, "--bundle", str(bundle.folder), "--as-of", AS_OF]
    with redirect_stdout(out):
        _check("begin", publishing_main([*words, "--run-key", run_key]))
    said = json.loads(out.getvalue().splitlines()[-1])["runs"][0]
    folder = Path(said["run"]).parent
    begun = Begun(said["run"], folder, bundle.manifest.name, said["version"], said["generation"], rows)
    _write_features(begun, bundle, columns)
    hot = {"entity": [entity_of(number) for number in range(rows)], "weight": np.ones(rows)}
    (begun.folder / "hotset").mkdir()
    pq.write_table(pa.table(hot, schema=HOT_SET), begun.folder / "hotset" / "part-0.parquet")
    return begun


def score(begun: Begun) -> None:
    _check("score", score_main(["--run", begun.url]))


def publish(begun: Begun) -> None:
    _check("publish", publish_main(["--run", begun.url]))


def verify(begun: Begun) -> None:
    _check("verify", publishing_main(["verify", "--run", begun.url]))


def _check(step: str, status: int) -> None:
    if status:
        raise StepFailed(f"{step} ended with status {status}")


def _write_features(begun: Begun, bundle: Bundle, columns: Columns) -> None:
    schema = features_schema(bundle.manifest.features)
    begun.features.mkdir()
    per_file = min(FILE_ROWS, -(-begun.rows // _MIN_FILES))
    for place, start in enumerate(range(0, begun.rows, per_file)):
        numbers = np.arange(start, min(start + per_file, begun.rows))
        given = {
            "entity": [entity_of(number) for number in numbers.tolist()],
            "as_of": pa.array(np.full(len(numbers), _AS_OF_US), schema.field("as_of").type),
            **columns(numbers),
        }
        arrays = [pa.array(given[field.name], field.type, from_pandas=True) for field in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        pq.write_table(table, begun.features / f"part-{place:05d}.parquet")
