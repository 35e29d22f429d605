"""Overview: who answered, how fast, why not precomputed, what is in service, and how many replicas that saves."""

from datetime import datetime

from online.monitor import charts
from online.monitor.overview import service
from online.monitor.overview import tables as made
from online.monitor.overview.figures import HITS, Figures, Quantiles, read_figures
from online.monitor.pages import Page, Report
from online.monitor.requestlog.kept import Coverage
from online.monitor.requestlog.sql import TOTAL
from online.monitor.sources import Sources
from online.monitor.tables import Table
from online.monitor.windows import Window, utc
from schemas.http import Source

LATEST_ROWS = 20
SHOWN_SET_ASIDE = 20
# The latency bars' scale: what a hit and a very slow answer take.
_LOW_MS, _HIGH_MS = 0.1, 1000.0


def build(sources: Sources, model: str, window: Window) -> Report:
    """Raises duckdb.Error where a query itself fails."""
    state = sources.state.read(model)
    log = sources.logs[model]
    with log.lock:
        coverage = log.refresh(window.start_s, window.end_s, window.now_s)
        figures = read_figures(log.connection, window)
        latest = log.latest(window.start_s, window.end_s, LATEST_ROWS)
    serving = service.in_service(state)
    fleet = service.estimate_fleet(figures, state, sources.settings)
    tables = [
        made.over_time(figures, window),
        made.by_source(figures),
        made.latency_over_time(figures, window),
        made.by_stage(figures),
        made.by_reason(figures),
        made.by_error(figures),
        made.by_version(figures),
        service.generation_table(serving, state),
        service.fleet_table(fleet, state, sources.settings),
        made.latest(latest),
    ]
    newest = utc(figures.newest_us / 1e6) if figures.newest_us is not None else None
    view = {
        "figures": figures,
        "coverage": coverage,
        "newest": newest,
        "serving": serving,
        "fleet": fleet,
        "hit": figures.latencies.get(("hit", TOTAL)),
        "live": figures.latencies.get((Source.LIVE.value, TOTAL)),
        "charts": _charts(figures, window, tables),
        "bars": {row[0]: _bar(figures.latencies.get((str(row[0]), TOTAL))) for row in tables[1].rows},
        "shown_set_aside": coverage.set_aside[:SHOWN_SET_ASIDE],
    }
    return Report(_facts(figures, coverage, newest, serving, fleet), tables, view)


def _charts(figures: Figures, window: Window, tables: list[Table]) -> dict[str, charts.Chart]:
    counts = {source: (source.capitalize(), figures.steps[source]) for source in made.present_sources(figures)}
    counts = counts or {Source.PRECOMPUTED.value: ("Precomputed", [0] * window.steps)}
    lines: dict[str, tuple[str, list[float | None]]] = {
        f"{group}-{which}": (f"{group.capitalize()} {which}", _values(figures, window, group, which))
        for group in ("hit", Source.LIVE.value)
        for which in ("p50", "p99")
    }
    ticks = window.tick_labels()
    return {
        "share": charts.stacked_shares("share", "Share by source", counts, ticks, "over_time"),
        "requests": charts.stacked_counts("requests", "Requests by source", counts, ticks, "over_time"),
        "latency": charts.log_lines(
            "latency", "Latency of hits and live answers", lines, ticks, "latency_over_time"
        ),
    }


def _values(figures: Figures, window: Window, group: str, which: str) -> list[float | None]:
    found = [figures.latency_steps.get((group, step)) for step in range(window.steps)]
    return [None if one is None else one.p50_ms if which == "p50" else one.p99_ms for one in found]


def _bar(found: Quantiles | None) -> tuple[float, float] | None:
    return charts.range_bar(found.p50_ms, found.p99_ms, _LOW_MS, _HIGH_MS) if found else None


def _facts(
    figures: Figures,
    coverage: Coverage,
    newest: datetime | None,
    serving: service.InService,
    fleet: service.Fleet,
) -> dict[str, object]:
    total = figures.requests()
    hit, live = figures.latencies.get(("hit", TOTAL)), figures.latencies.get((Source.LIVE.value, TOTAL))
    estimate = fleet.estimate
    return {
        "requests": total,
        "errors": figures.requests("error"),
        "hit_rate": figures.hit_rate,
        **{f"share_{s.value}": figures.requests(s.value) / total if total else None for s in Source},
        "hits": figures.requests(*HITS),
        "hit_p50_ms": hit.p50_ms if hit else None,
        "hit_p99_ms": hit.p99_ms if hit else None,
        "live_p50_ms": live.p50_ms if live else None,
        "live_p99_ms": live.p99_ms if live else None,
        "version": serving.version,
        "generation": serving.generation.id if serving.generation else None,
        "generation_rows": serving.generation.rows if serving.generation else None,
        "generation_age_s": serving.age_s,
        "generation_problem": serving.problem,
        "peak_requests_per_s": fleet.all_peak.per_s if fleet.all_peak else None,
        "peak_tail_per_s": fleet.tail_peak.per_s if fleet.tail_peak else None,
        "replica_rows_per_s": estimate.rows_per_s if estimate else None,
        "replica_load_without": estimate.load_without if estimate else None,
        "replica_load_with": estimate.load_with if estimate else None,
        "replicas_without": estimate.without if estimate else None,
        "replicas_with": estimate.with_precomputing if estimate else None,
        "fleet_problem": fleet.problem,
        "newest_row": newest.isoformat() if newest else None,
        "rows_without_time": figures.undated,
        "files": coverage.files,
        "streams": coverage.streams,
        "files_set_aside": [{"file": _leaf(one.path), "reason": one.reason} for one in coverage.set_aside],
        "log_problem": coverage.problem,
    }


def _leaf(path: str) -> str:
    """Partition and name of a file: enough to find it, and nothing of where the data root lies."""
    return "/".join(path.split("/")[-4:])


PAGE = Page("overview", "Overview", "overview.html", build)
