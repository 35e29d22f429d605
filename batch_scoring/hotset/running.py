"""The two commands: read or count, fit, and say."""

from dataclasses import dataclass, replace

import numpy as np
from pyspark.storagelevel import StorageLevel

from batch_scoring.hotset import backtest as testing
from batch_scoring.hotset import fit as fitting
from batch_scoring.hotset.choice import Lists
from batch_scoring.hotset.choosing import Choice, Room, choose_now, room_of
from batch_scoring.hotset.columns import Columns, find_columns
from batch_scoring.hotset.decayed import decayed_counts
from batch_scoring.hotset.everybody import choose_among
from batch_scoring.hotset.expected import decayed_means
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.log_reading import LogSource, Read, log_source, read_log
from batch_scoring.hotset.measures import peak_minute_requests
from batch_scoring.hotset.options import LOCAL_BYTES, Options
from batch_scoring.hotset.plan import Plan
from batch_scoring.hotset.progress import Progress
from batch_scoring.hotset.report import Document, Facts, backtest_document, choice_document
from batch_scoring.hotset.sampling import sampled
from batch_scoring.hotset.saving import Saving, saving
from batch_scoring.hotset.spark_log import SparkLog
from batch_scoring.hotset.trace import BadLog, Trace, Windows, cut
from batch_scoring.session import spark_session

_CSV_WITHOUT_INDEX = ("", "Unnamed: 0")


@dataclass(frozen=True)
class Logged:
    """A log, or the sample of one. `share` of its `known` entities are in `trace`."""

    trace: Trace
    share: float
    known: int
    facts: Facts


def run_backtest(options: Options, progress: Progress) -> Document:
    """Raises BadLog."""
    source, columns = _source(options, progress)
    if _is_local(options, source):
        progress.say("reading the log")
        logged = _in_memory(read_log(source, columns, options.cost_column), columns, options)
    else:
        with spark_session("hotset-backtest") as spark:
            logged = _sampled(SparkLog(spark, source, columns), options, columns, progress)
    trace, windows = cut(logged.trace, options.refresh_s, options.history)
    plan = _plan(options, logged, trace)
    progress.begin("simulating", testing.STEPS)
    found = testing.backtest(trace, windows, plan, advance=progress.advance)
    return backtest_document(found, plan, windows, logged.facts)


def run_choice(options: Options, progress: Progress) -> Document:
    """Raises BadLog."""
    source, columns = _source(options, progress)
    if _is_local(options, source):
        whole = read_log(source, columns, options.cost_column)
        logged = _in_memory(whole, columns, options)
        fitted, room, _ = _fitted(options, logged, progress)
        everybody = whole.trace.knowing(options.mandatory)
        everybody, windows = cut(everybody, options.refresh_s, options.history, is_to_end=True)
        means = decayed_means(everybody, windows, len(windows), fitted.profile)
        lists = Lists.of(everybody, options.mandatory, options.blocked)
        found = choose_now(everybody, means, fitted, options.model, room, lists)
        return choice_document(found, fitted, logged.facts, windows.refresh_s, _saving(found, logged, options))
    with spark_session("hotset-choose") as spark:
        log = SparkLog(spark, source, columns)
        logged = _sampled(log, options, columns, progress)
        fitted, room, windows = _fitted(options, logged, progress)
        progress.say("counting everybody")
        found = _spark_choice(log, windows, fitted, room, options)
        return choice_document(found, fitted, logged.facts, windows.refresh_s, _saving(found, logged, options))


def _saving(found: Choice, logged: Logged, options: Options) -> Saving:
    peak = peak_minute_requests(logged.trace)
    peak_per_s = None if peak is None else peak / logged.share / 60
    return saving(found, options.model, peak_per_s, options.price)


def _source(options: Options, progress: Progress) -> tuple[LogSource, Columns]:
    source = log_source(options.log)
    types = {name: kind for name, kind in source.types.items() if name not in _CSV_WITHOUT_INDEX}
    columns = find_columns(types, options.entity, options.time, options.order, source.is_csv, options.id_column)
    if columns.said:
        progress.say(f"guessed: {columns.said}; options name others")
    if options.cost_column and options.cost_column not in source.types:
        raise BadLog(f"the log has no column {options.cost_column}")
    return source, columns


def _is_local(options: Options, source: LogSource) -> bool:
    is_local = options.engine == "local" or (options.engine == "auto" and source.bytes_on_disk <= LOCAL_BYTES)
    if options.cost_column and not is_local:
        raise BadLog("--cost-column is read in memory only: give --engine local")
    return is_local


def _in_memory(whole: Read, columns: Columns, options: Options) -> Logged:
    trace, share = sampled(whole.trace, options.most_requests)
    known = whole.trace.entities
    facts = Facts(whole.rows, len(whole.trace.codes), dict(whole.aside), known, columns, share)
    return Logged(trace, share, known, facts)


def _sampled(log: SparkLog, options: Options, columns: Columns, progress: Progress) -> Logged:
    progress.say("reading the log with Spark")
    trace, share = log.sample(options.most_requests)
    known = round(trace.entities / share)
    facts = Facts(log.facts.rows, log.facts.kept, dict(log.facts.aside), known, columns, share)
    # Times that Spark made of an order count as days, which `cut` does for an order in memory.
    return Logged(replace(trace, has_times=columns.time is not None), share, known, facts)


def _plan(options: Options, logged: Logged, trace: Trace) -> Plan:
    room = _room(options, logged)
    lists = Lists.of(trace, options.mandatory, options.blocked)
    slots = max(1, round(room.slots * logged.share))
    most = max(1, round(room.most_fixed * logged.share))
    return Plan(slots, most, options.model, options.server, lists, logged.share, options.seed)


def _room(options: Options, logged: Logged) -> Room:
    id_bytes = float(logged.trace.id_bytes.mean())
    return room_of(logged.known, options.max_fraction, options.model, id_bytes, options.budget_bytes)


def _fitted(options: Options, logged: Logged, progress: Progress) -> tuple[Fit, Room, Windows]:
    trace, windows = cut(logged.trace, options.refresh_s, options.history, is_to_end=True)
    plan = _plan(options, logged, trace)
    if plan.server.ttl_s is None:
        # No older than what is precomputed; a backtest without one lets caches be at their best.
        plan = replace(plan, server=replace(plan.server, ttl_s=windows.refresh_s))
    progress.begin("simulating", fitting.STEPS)
    fitted = fitting.fit(trace, windows, plan, progress.advance)
    return fitted, _room(options, logged), windows


def _spark_choice(log: SparkLog, windows: Windows, fitted: Fit, room: Room, options: Options) -> Choice:
    as_of_s = float(np.nextafter(log.facts.end_s, np.inf))
    past = min(windows.history, len(windows))
    counts = decayed_counts(log.requests, as_of_s, past, windows.refresh_s, fitted.profile)
    counts = counts.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return choose_among(counts, past, fitted, options.model, room, options.mandatory, options.blocked)
    finally:
        counts.unpersist()
