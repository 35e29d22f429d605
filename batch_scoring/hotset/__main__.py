"""The hot set of a night: the known entities that were asked for most, newer requests counting more."""

from collections.abc import Sequence
from math import floor

import pyarrow.compute as pc
from pyspark.sql import functions as F

from batch_scoring.files import dataset, spark_url, staged_folder
from batch_scoring.hotset.counts import request_weights, window_begin
from batch_scoring.hotset.log_files import log_files
from batch_scoring.job import run_step
from batch_scoring.runs import LOG, Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings

STEP = "select"


def select(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `hotset/`: at most the hot fraction of the known entities, and none that nobody asked for.

    Equal weights at the cut are ordered by the entity's bytes, so that a retried stage chooses the same set.
    """
    known = run.count("features", "rows")
    budget = max(1, floor(known * settings.hot_fraction))
    begin = window_begin(run.as_of, settings.history_days)
    files = log_files(settings.data_url, run.model, begin, run.as_of)
    with spark_session(f"hotset-select-{run.generation}") as spark:
        with stage(run, "choice") as facts:
            weights = request_weights(spark, files.good, begin, run.as_of, settings.half_life_days).cache()
            entities = spark.read.parquet(spark_url(run.place("features"))).select("entity")
            wanted = weights.join(entities, "entity", "left_semi")
            # Rounded, since a sum's last digits depend on the order of addition, which a retry may change.
            ordered = wanted.orderBy(F.round("weight", 9).desc(), F.encode("entity", "UTF-8")).limit(budget)
            with staged_folder(run.place("hotset")) as staged:
                chosen = ordered.select("entity", "weight").coalesce(1)
                chosen.write.parquet(staged)
            totals = weights.agg(F.sum("weight"), F.sum("requests"), F.count("*")).first()
            facts |= {"known": known, "budget": budget}
        assert totals is not None
        weight, requests, seen = float(totals[0] or 0), int(totals[1] or 0), int(totals[2])
    hot = dataset(run.place("hotset")).to_table(columns=["weight"])
    coverage = float(pc.sum(hot["weight"]).as_py() or 0) / weight if weight else 0.0
    if requests == 0:
        LOG.warning("no requests in the log of %s since %s: nothing is known to be hot yet", run.model, begin)
    report: dict[str, object] = {"known": known, "budget": budget, "chosen": hot.num_rows, "requests": requests}
    return report | {
        "entities_seen": seen,
        "coverage": coverage,
        "log_files": len(files.good),
        "log_files_aside": files.aside,
    }


def main(argv: Sequence[str] | None = None) -> int:
    return run_step(STEP, select, argv, __doc__ or "")


if __name__ == "__main__":
    raise SystemExit(main())
