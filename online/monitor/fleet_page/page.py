"""Fleet: replicas with and without precomputing, what that costs, and the fleet that a cold cache needs."""

import logging

from online.monitor import charts
from online.monitor.fleet_page import tables as made
from online.monitor.fleet_page.costs import (
    HOURS_PER_DAY,
    Balance,
    NightlyJob,
    RedisMemory,
    balance,
    nightly_job,
    redis_memory,
)
from online.monitor.fleet_page.figures import Step, steps
from online.monitor.fleet_page.sizing import Sizing, size
from online.monitor.overview.figures import count_hits
from online.monitor.overview.peaks import is_tail, needs_answer, read_peak
from online.monitor.pages import Page, Report
from online.monitor.requestlog.snapshot import Coverage
from online.monitor.sources import Sources
from online.monitor.state import LiveState
from online.monitor.windows import Window
from schemas.run_folders import RunFolders, read_runs

logger = logging.getLogger(__name__)


def build(sources: Sources, model: str, window: Window) -> Report:
    """Never raises for Redis or for the data root: what cannot be read is told in words."""
    settings, state = sources.settings, sources.state.read(model)
    with sources.logs[model].reading(window.start_s, window.end_s, window.now_s) as (counts, coverage, _):
        requests, hits = count_hits(counts, window)
        peaks = read_peak(counts, window, needs_answer), read_peak(counts, window, is_tail)
        sizing = size(*peaks, state, settings)
        by_step = steps(counts, window, sizing.estimate)
    folders, problem = _read_runs(sources, model, state)
    job, redis = nightly_job(folders), redis_memory(state.routes, folders, settings)
    saved = balance(sizing.estimate.saved, job, redis, settings) if sizing.estimate else None
    tables = [
        made.fleet_table(sizing, hits / requests if requests else None, settings),
        made.balance_table(saved, job, redis, settings, sizing.problem or made.NO_REQUESTS),
        made.cold_table(sizing),
        made.device_table(sizing, state, settings),
        made.over_time(by_step, window),
    ]
    view = {
        "sizing": sizing,
        "estimate": sizing.estimate,
        "balance": saved,
        "coverage": coverage,
        "charts": _charts(by_step, window),
        "problems": [f"{one}." for one in (state.problem, problem, coverage.problem) if one],
        "has_requests": sizing.all_peak is not None,
        "currency": settings.currency,
        "prices_missing": settings.price_per_replica_hour is None,
    }
    return Report(_facts(sizing, saved, job, redis, coverage), tables, view)


def _read_runs(sources: Sources, model: str, state: LiveState) -> tuple[RunFolders, str | None]:
    named = {one.id for _, one in state.routes.generations} if state.routes else set()
    try:
        return read_runs(sources.settings.data_url, model, named, sources.files), None
    except OSError as error:
        logger.warning("the runs cannot be read", extra={"error": type(error).__name__})
        return RunFolders({}), f"The run folders cannot be read ({type(error).__name__}), so no cost is known"


def _charts(by_step: list[Step], window: Window) -> dict[str, charts.Chart]:
    ticks = window.tick_labels()
    replicas: dict[str, tuple[str, list[float | None]]] = {
        "without": ("Without precomputing", [one.without for one in by_step]),
        "with": ("With it", [one.with_precomputing for one in by_step]),
    }
    rates: dict[str, tuple[str, list[float | None]]] = {
        "all-per_s": ("All requests", [one.all_per_s for one in by_step]),
        "tail-per_s": ("The tail", [one.tail_per_s for one in by_step]),
    }
    return {
        "replicas": charts.count_lines(
            "replicas", "Replicas for each step's busiest minutes", replicas, ticks, "over_time"
        ),
        "rates": charts.count_lines("rates", "Busiest minutes", rates, ticks, "over_time"),
    }


def _facts(
    sizing: Sizing, saved: Balance | None, job: NightlyJob | None, redis: RedisMemory, coverage: Coverage
) -> dict[str, object]:
    estimate = sizing.estimate
    every, tail = (estimate.all_live, estimate.tail) if estimate else (None, None)
    return {
        "replicas_without": every.replicas if every else None,
        "replicas_with": tail.replicas if tail else None,
        "replicas_saved": estimate.saved if estimate else None,
        "replicas_cold": every.replicas if every else None,
        "replicas_up": sizing.up,
        "load_without": every.load if every else None,
        "load_with": tail.load if tail else None,
        "peak_requests_per_s": sizing.all_peak.per_s if sizing.all_peak else None,
        "peak_tail_per_s": sizing.tail_peak.per_s if sizing.tail_peak else None,
        "replica_rows_per_s": estimate.rows_per_s if estimate else None,
        "batch_rows_without": every.batch_rows if every else None,
        "batch_rows_with": tail.batch_rows if tail else None,
        "row_ms_without": every.row_ms if every else None,
        "row_ms_with": tail.row_ms if tail else None,
        "replica_hours_per_day_without": every.replicas * HOURS_PER_DAY if every else None,
        "replica_hours_per_day_with": tail.replicas * HOURS_PER_DAY if tail else None,
        "nightly_job_hours_per_day": job.hours_per_day if job else None,
        "redis_gb": redis.gb,
        "left_replicas": saved.left.replicas if saved else None,
        "left_replica_hours_per_day": saved.left.replica_hours_per_day if saved else None,
        "left_money_per_month": saved.left.money_per_month if saved else None,
        "problem": sizing.problem,
        "files_waiting": coverage.waiting,
    }


PAGE = Page("fleet", "Fleet", "fleet.html", build)
