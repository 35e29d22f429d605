"""Features of a night: what is known of every entity as of its moment, for scoring and for live answers.

Writes `features/` (Parquet), the online feature table in Redis, and `features.arrow`, the same rows as a file. No
client sees them before the generation is activated.
"""

from collections.abc import Sequence
from pathlib import Path

import fsspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_scoring.features.conform import conform
from batch_scoring.features.query import feature_rows
from batch_scoring.features.table import load_into_redis, packed, write_snapshot
from batch_scoring.files import dataset, exists, file_system, spark_url, staged_folder
from batch_scoring.job import run_step
from batch_scoring.runs import Refused, Run, check_rejects, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from schemas.bundle import fetch_bundle
from schemas.keys import bucket_count
from schemas.names import FEATURE_QUERY_FILE, TABLES

STEP = "features"


def compute(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Runs the query, writes its rows, loads them. Raises Refused where the query does not fit the model."""
    bundle = fetch_bundle(
        run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
    )
    names = bundle.manifest.feature_names
    with spark_session(f"hotset-features-{run.generation}") as spark:
        tables = f"{settings.data_url.rstrip('/')}/{TABLES}"
        found = feature_rows(spark, tables, query_text(f"{tables}/{FEATURE_QUERY_FILE}"), [run.as_of])
        conformed = conform(found, bundle.manifest)
        with stage(run, "feature query") as facts:
            write_parquet(conformed.rows, run.place("features"))
            rows = dataset(run.place("features")).count_rows()
            write_parquet(conformed.rejects, run.place("rejects-features"))
            rejected = dataset(run.place("rejects-features")).count_rows()
            facts |= {"rows": rows, "rejected": rejected}
        if rows == 0:
            raise Refused("the feature query returned no entity: check the tables and its conditions on as_of")
        check_rejects(rejected, rows + rejected, settings, "entities of the feature query")
        buckets = bucket_count(rows)
        with stage(run, "online feature table") as facts:
            written = spark.read.parquet(spark_url(run.place("features")))
            write_parquet(packed(written, names, buckets), run.place("packed-features"))
            table = spark.read.parquet(spark_url(run.place("packed-features")))
            bad = reasons(table)
            check_rejects(sum(bad.values()), rows, settings, "entities' features")
            good = table.where(F.col("reason").isNull())
            load_into_redis(good, run.model, run.generation, buckets, settings)
            facts |= {"rows": rows, "buckets": buckets}
        with stage(run, "snapshot") as facts:
            facts["rows"] = write_snapshot(run.place("packed-features"), run.place("features.arrow"))
    filesystem, path = file_system(run.place("packed-features"))
    filesystem.rm(path, recursive=True)
    return {"rows": rows, "rejected": rejected, "unpackable": bad, "buckets": buckets, "features": list(names)}


def query_text(url: str) -> str:
    """The query. Raises Refused where there is none."""
    if not exists(url):
        raise Refused(f"{url} does not exist: put the query that returns entity, as_of and the features there")
    with fsspec.open(url, "r", encoding="utf-8") as file:
        text: str = file.read()
    return text


def write_parquet(rows: DataFrame, url: str) -> None:
    with staged_folder(url) as staged:
        rows.write.parquet(staged)


def reasons(table: DataFrame) -> dict[str, int]:
    """How many rows could not be packed, by reason."""
    bad = table.where(F.col("reason").isNotNull()).groupBy("reason").count().toArrow()
    assert isinstance(bad, pa.Table)
    return dict(zip(bad["reason"].to_pylist(), bad["count"].to_pylist(), strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, compute, argv, __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
