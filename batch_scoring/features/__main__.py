"""Features of a night: what is known of every entity as of its moment, for scoring and for live answers.

Writes `features/` and `rejects-features/` (Parquet), the online feature table in Redis, and `features.arrow`, the
same rows as a file. No client sees them before the generation is activated. The query runs once: where Redis has
lost the table, it is loaded again from the files.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.features.conform import REASON, conform
from batch_scoring.features.query import feature_rows
from batch_scoring.features.table import load_into_redis, packed, write_snapshot
from batch_scoring.files import dataset, exists, remove, spark_url, staged_folder, write_parquet
from batch_scoring.job import run_step, step_parser
from batch_scoring.publishing.memory import check_memory
from batch_scoring.publishing.retire import DELETED
from batch_scoring.publishing.sizes import fields_bytes
from batch_scoring.runs import Refused, Run, check_rejects, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, held
from schemas.arrow import REJECTS
from schemas.bundle import fetch_bundle
from schemas.keys import bucket_count, feature_key
from schemas.manifest import Manifest
from schemas.names import FEATURE_QUERY_FILE, TABLES

STEP = "features"
ROWS_STEP = "features-rows"


def compute(run: Run, settings: BatchSettings, query_url: str | None = None) -> dict[str, object]:
    """Runs the query, writes its rows, loads them. Raises Refused where the query does not fit the model."""
    bundle = fetch_bundle(
        run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
    )
    with spark_session(f"hotset-features-{run.generation}") as spark:
        if run.report(ROWS_STEP) is None:
            with stage(run, "feature query") as facts:
                found = _write_rows(spark, run, settings, bundle.manifest, query_url)
                facts.update(found)
            run.finish(ROWS_STEP, found)
        with stage(run, "online feature table") as facts:
            loaded = _load(spark, run, settings, bundle.manifest.feature_names)
            facts.update(loaded)
    rejected, buckets = run.count(ROWS_STEP, "rejected"), run.count(ROWS_STEP, "buckets")
    names = list(bundle.manifest.feature_names)
    return {**loaded, "rejected": rejected, "buckets": buckets, "features": names}


def _write_rows(
    spark: SparkSession, run: Run, settings: BatchSettings, manifest: Manifest, query_url: str | None
) -> dict[str, object]:
    tables = f"{settings.data_url.rstrip('/')}/{TABLES}"
    text = query_text(query_url or f"{tables}/{FEATURE_QUERY_FILE}")
    judged = conform(feature_rows(spark, tables, text, [run.as_of]), manifest, run.as_of)
    # The query may be long, and need not give the same rows twice: what is kept and what is not come from one run.
    _write(judged, run.place("judged"))
    _write(
        spark.read.parquet(spark_url(run.place("judged"))).where(F.col(REASON).isNull()).drop(REASON),
        run.place("features"),
    )
    reasons = Counter(_write_rejects(run))
    remove(run.place("judged"))
    rows, rejected = dataset(run.place("features")).count_rows(), reasons.total()
    if rows == 0:
        raise Refused("the feature query returned no entity: check the tables and its conditions on as_of")
    check_rejects(rejected, rows + rejected, settings, f"rows of the feature query ({_in_words(reasons)})")
    return {"rows": rows, "rejected": rejected, "reasons": dict(reasons), "buckets": bucket_count(rows)}


def _write(rows: DataFrame, url: str) -> None:
    with staged_folder(url) as staged:
        rows.write.parquet(staged)


def _write_rejects(run: Run) -> Iterator[str]:
    """Writes the rejected rows, and gives the reason of each."""
    judged = dataset(run.place("judged"))
    seen: list[str] = []

    def tables() -> Iterator[pa.Table]:
        for batch in judged.to_batches(columns=["entity", REASON], filter=ds.field(REASON).is_valid()):
            seen.extend(batch.column(REASON).to_pylist())
            detail = pa.repeat(pa.scalar("a row of the feature query"), batch.num_rows)
            yield pa.table([batch.column("entity"), batch.column(REASON), detail], names=REJECTS.names)

    write_parquet(run.place("rejects-features"), REJECTS, tables())
    yield from seen


def _load(spark: SparkSession, run: Run, settings: BatchSettings, features: Sequence[str]) -> dict[str, object]:
    """Into Redis and the snapshot; an entity with a value that no feature can have is left out, and counted."""
    rows, buckets = run.count(ROWS_STEP, "rows"), run.count(ROWS_STEP, "buckets")
    written = spark.read.parquet(spark_url(run.place("features")))
    _write(packed(written, features, buckets), run.place("packed-features"))
    bad, filled, needed = _look_at_packed(run, buckets)
    check_rejects(bad.total(), rows, settings, f"entities' features ({_in_words(bad)})")
    with connect(settings) as redis:
        check_memory(redis, needed, "the feature table", settings)
    table = spark.read.parquet(spark_url(run.place("packed-features"))).where(F.col("reason").isNull())
    try:
        loaded = load_into_redis(table, run.model, run.generation, buckets, settings)
    finally:
        # A later run may have swept meanwhile: what was written since is yet to be deleted.
        run.forget(DELETED)
    in_snapshot = write_snapshot(run.place("packed-features"), run.place("features.arrow"))
    assert loaded == in_snapshot == rows - bad.total(), (
        f"{loaded} loaded, {in_snapshot} in the snapshot, of {rows}"
    )
    remove(run.place("packed-features"))
    report = {"rows": rows, "loaded": loaded, "unpackable": dict(bad), "filled_buckets": filled}
    return {**report, "needed_bytes": needed}


def _look_at_packed(run: Run, buckets: int) -> tuple[Counter[str], int, int]:
    """Why rows could not be packed, the buckets that have rows, and about how many bytes they take in Redis."""
    bad: Counter[str] = Counter()
    fields = np.zeros(buckets, dtype=np.int64)
    needed = 0
    columns = ["bucket", "field", "record", "reason"]
    for batch in dataset(run.place("packed-features")).to_batches(columns=columns):
        bad.update(reason for reason in batch.column("reason").to_pylist() if reason is not None)
        good = batch.filter(pc.is_null(batch.column("reason")))
        fields += np.bincount(good.column("bucket").to_numpy(zero_copy_only=False), minlength=buckets)
        lengths = [pc.binary_length(good.column(name)).to_numpy() for name in ("field", "record")]
        needed += fields_bytes(*lengths)
    return bad, int(np.count_nonzero(fields)), needed


def _in_words(reasons: Counter[str]) -> str:
    return "; ".join(f"{count:,} × {reason}" for reason, count in reasons.most_common(5)) or "none"


def query_text(url: str) -> str:
    """The query. Raises Refused where there is none."""
    if not exists(url):
        raise Refused(f"{url} does not exist: put the query that returns entity, as_of and the features there")
    with fsspec.open(url, "r", encoding="utf-8") as file:
        text: str = file.read()
    return text


def still_holds(run: Run, settings: BatchSettings) -> bool:
    """Whether Redis still has the table."""
    keys = (feature_key(run.model, run.generation, bucket) for bucket in range(run.count(STEP, "buckets")))
    with connect(settings) as redis:
        return held(redis, keys) == run.count(STEP, "filled_buckets")


def main(argv: Sequence[str] | None = None) -> int:
    parser = step_parser("batch_scoring.features", __doc__ or "")
    parser.add_argument("--query", help=f"address of the query (default: {TABLES}/{FEATURE_QUERY_FILE})")
    given = parser.parse_args(argv)
    return run_step(STEP, lambda run, settings: compute(run, settings, given.query), given.run, still_holds)


if __name__ == "__main__":
    raise SystemExit(main())
