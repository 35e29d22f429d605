"""The hot set of a night: the known entities that are worth precomputing, by what the request log says so far."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from batch_scoring.files import dataset, remove, spark_url, write_parquet
from batch_scoring.hotset.changes import select_changed
from batch_scoring.hotset.choice import Lists
from batch_scoring.hotset.choosing import Choice
from batch_scoring.hotset.everybody import means_of
from batch_scoring.hotset.log_files import LogFiles, log_files
from batch_scoring.hotset.nightly import log_rows
from batch_scoring.hotset.nightly.deciding import decide, kept, only_mandatory
from batch_scoring.hotset.nightly.given import Given
from batch_scoring.hotset.nightly.in_service import set_in_service
from batch_scoring.hotset.nightly.large_log import LargeLog
from batch_scoring.hotset.nightly.log import Log
from batch_scoring.hotset.nightly.night import Night
from batch_scoring.hotset.nightly.report import Outcome, step_report, write_report
from batch_scoring.hotset.nightly.small_log import SmallLog
from batch_scoring.hotset.nightly.trying import Trial, try_on_the_past
from batch_scoring.hotset.sampling import trace_of
from batch_scoring.hotset.trace import Trace
from batch_scoring.runs import LOG, Role, Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import HOT_SET
from schemas.hotset_report import Used

_ROWS = "request-rows"


def select(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `hotset/`, the report of the choice and its picture.

    A retried stage chooses the same set: nothing goes by an order that another attempt may not have. For a delta
    see `select_changed`.
    """
    if run.role is Role.DELTA:
        return select_changed(run, settings)
    given = Given.of(run, settings)
    begin = run.as_of - timedelta(days=settings.history_days)
    files = log_files(settings.data_url, run.model, begin, run.as_of)
    with (
        spark_session(f"hotset-select-{run.generation}") as spark,
        _log(spark, run, settings, given, files, begin) as log,
    ):
        mandatory = tuple(log.known_of(given.mandatory))
        night = Night(run, settings, given, files, log.facts, begin, set_in_service(run, settings), mandatory)
        outcome = _choose(night, log)
    write_report(night, outcome)
    return step_report(night, outcome)


@contextmanager
def _log(
    spark: SparkSession, run: Run, settings: BatchSettings, given: Given, files: LogFiles, begin: datetime
) -> Iterator[Log]:
    """The log's rows that count: in this process where they are few, else in Spark."""
    url, features = run.place(_ROWS), run.place("features")
    as_of_s = run.as_of.timestamp()
    with stage(run, "request log") as facts:
        log_rows.write_rows(spark, url, files, settings.data_url, begin, run.as_of)
        log: SmallLog | LargeLog | None = None
        rows = dataset(url)
        if rows.count_rows() <= settings.simulate_requests:
            table = log_rows.conformed(rows.to_table())
            found = log_rows.table_facts(table)
            # Rows without ids stand for many requests each.
            if found.requests <= settings.simulate_requests:
                trace = trace_of(log_rows.table_requests(table))
                log = SmallLog(trace, found, dataset(features), as_of_s, given.refresh_s)
        if log is None:
            known = spark.read.parquet(spark_url(features))
            log = LargeLog(spark, spark.read.parquet(spark_url(url)), known, as_of_s, given.refresh_s)
        facts |= {"files": len(files.good), "set aside": len(files.aside), "rows": files.rows}
        facts |= {"requests": log.facts.requests, **log.facts.set_aside}
    try:
        yield log
    finally:
        log.close()
    remove(url)


def _choose(night: Night, log: Log) -> Outcome:
    """Writes `hotset/`."""
    run, given, old = night.run, night.given, night.in_service
    with stage(run, "trial on the past") as facts:
        trial = try_on_the_past(log, night)
        facts["entities looked at"] = f"{trial.share:.1%}"
        facts["half-life in nights"] = trial.fit.profile.half_life
        if trial.why_not:
            facts["log too short"] = trial.why_not
    with stage(run, "choice") as facts:
        log.count(trial.fit, night.past)
        choice = log.choose(given.model, trial.room, night.mandatory, given.blocked)
        decision = decide(trial, choice, old)
        if decision.used is Used.YESTERDAY:
            choice = _yesterdays(night, log, trial, choice)
        elif decision.used is Used.DECLINED:
            choice = only_mandatory(choice, frozenset(night.mandatory), given.model)
        hot = pa.table({"entity": choice.entities, "weight": choice.expected}, schema=HOT_SET)
        chosen = write_parquet(run.place("hotset"), HOT_SET, [hot])
        curve, asked = log.curve(given.known)
        found = log.traffic(choice.entities, old.names if old else (), old.as_of_s if old else None)
        facts |= {"known": given.known, "slots": choice.slots, "chosen": chosen}
    level = logging.INFO if decision.used is Used.CHOICE else logging.WARNING
    LOG.log(level, "%s %s: %s: %s", run.model, run.generation, decision.used.value, decision.reason)
    return Outcome(trial, choice, decision, curve, asked, found)


def _yesterdays(night: Night, log: Log, trial: Trial, choice: Choice) -> Choice:
    assert night.in_service is not None, "only a set that was there can win"
    names = log.known_of(night.in_service.names)
    trace = Trace.of(np.empty(0, np.int64), names).knowing(night.mandatory)
    means = means_of(np.array(log.weights_of(trace.names), np.float64), trial.fit, night.past)
    lists = Lists.of(trace, night.mandatory, night.given.blocked)
    return kept(trace, means, trial, choice, night.given.model, lists)
