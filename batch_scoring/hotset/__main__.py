"""The hot set of a night: the known entities that were asked for most, newer requests counting more."""

import sys
from collections.abc import Sequence
from fractions import Fraction
from math import floor

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from batch_scoring.files import dataset, remove, spark_url, staged_folder, write_parquet
from batch_scoring.hotset.changes import select_changed
from batch_scoring.hotset.cli import main as try_on_a_log
from batch_scoring.hotset.counts import peak_minute_requests, request_weights, window_begin
from batch_scoring.hotset.log_files import LogFiles, drop_damaged, log_files
from batch_scoring.job import run_step, step_parser
from batch_scoring.runs import LOG, Role, Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import HOT_SET

STEP = "select"
COMMANDS = ("choose", "backtest")


def select(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `hotset/`: at most the hot fraction of the known entities, and none that nobody asked for.

    Equal weights at the cut are ordered by the entity's bytes, so that a retried stage chooses the same set. For a
    delta see `select_changed`.
    """
    if run.role is Role.DELTA:
        return select_changed(run, settings)
    known = run.count("features", "rows")
    # As written, not as the nearest double: 0.29 of 100 is 29.
    budget = max(1, floor(known * Fraction(str(settings.hot_fraction))))
    files = log_files(settings.data_url, run.model, window_begin(run.as_of, settings.history_days), run.as_of)
    with spark_session(f"hotset-select-{run.generation}") as spark:
        with stage(run, "counts of the request log") as facts:
            _count(spark, run, settings, files)
            begin = window_begin(run.as_of, settings.history_days)
            peak = peak_minute_requests(spark, files.good, begin, run.as_of)
            facts |= {"files": len(files.good), "set aside": len(files.aside), "rows": files.rows}
        with stage(run, "choice") as facts:
            chosen = _choose(spark, run, budget)
            facts |= {"known": known, "budget": budget, "chosen": chosen}
    report: dict[str, object] = {"known": known, "budget": budget, "chosen": chosen, "rows_read": files.rows}
    report |= {"log_files": len(files.good), "log_files_aside": files.aside, **_coverage(run)}
    report["peak_minute_requests"] = peak
    remove(run.place("counts"))
    if report["requests"] == 0:
        LOG.warning(
            "no answered request of %s in the last %d days: nothing is known to be hot, the set is empty",
            run.model,
            settings.history_days,
        )
    return report


def _count(spark: SparkSession, run: Run, settings: BatchSettings, files: LogFiles) -> None:
    """Writes `counts/`. A file whose footer is sound and whose pages are not is found here, and set aside."""
    begin = window_begin(run.as_of, settings.history_days)
    while True:
        weights = request_weights(spark, files.good, begin, run.as_of, settings.half_life_days)
        try:
            with staged_folder(run.place("counts")) as staged:
                weights.write.parquet(staged)
        except (Py4JJavaError, PySparkException):
            if not drop_damaged(settings.data_url, files):
                raise
        else:
            return


def _choose(spark: SparkSession, run: Run, budget: int) -> int:
    counts = spark.read.schema("entity string, weight double").parquet(spark_url(run.place("counts")))
    known = spark.read.parquet(spark_url(run.place("features"))).select("entity")
    ordered = counts.join(known, "entity", "left_semi").orderBy(counts["weight"].desc(), "entity").limit(budget)
    hot = ordered.select("entity", "weight").toArrow()
    assert isinstance(hot, pa.Table)
    return write_parquet(run.place("hotset"), HOT_SET, [hot])


def _coverage(run: Run) -> dict[str, object]:
    """What share of the log's traffic the set holds, of requests as they were and as they are weighted."""
    hot = pa.array(dataset(run.place("hotset")).to_table(columns=["entity"])["entity"].to_pylist(), pa.string())
    seen = requests = hot_requests = 0
    weight = hot_weight = 0.0
    for batch in dataset(run.place("counts")).to_batches():
        inside = batch.filter(pc.is_in(batch.column("entity"), hot))
        seen += batch.num_rows
        requests += pc.sum(batch.column("requests")).as_py() or 0
        hot_requests += pc.sum(inside.column("requests")).as_py() or 0
        weight += pc.sum(batch.column("weight")).as_py() or 0.0
        hot_weight += pc.sum(inside.column("weight")).as_py() or 0.0
    return {
        "entities_seen": seen,
        "requests": requests,
        "coverage": hot_requests / requests if requests else 0.0,
        "coverage_weighted": hot_weight / weight if weight else 0.0,
    }


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in COMMANDS:
        return try_on_a_log(words)
    return run_step(STEP, select, step_parser(STEP, __doc__ or "").parse_args(argv).run)


if __name__ == "__main__":
    raise SystemExit(main())
