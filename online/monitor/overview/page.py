"""Overview: who answered, how fast, why not precomputed, what is in service, and what changed when."""

from datetime import datetime

from online.monitor import charts
from online.monitor.fleet_page import sizing
from online.monitor.overview import service
from online.monitor.overview import tables as made
from online.monitor.overview.ages import ages_chart, ages_table, read_ages
from online.monitor.overview.changes import Changes, changes_table, changes_within
from online.monitor.overview.figures import HITS, Figures, Quantiles, count_hits, read_figures
from online.monitor.pages import Page, Report
from online.monitor.requestlog.snapshot import Coverage
from online.monitor.requestlog.sql import TOTAL
from online.monitor.sources import Sources
from online.monitor.windows import Window, utc
from schemas.http import Source

LATEST_ROWS = 20
SHOWN_SET_ASIDE = 20
# The latency bars' scale: what a hit and a very slow answer take.
_LOW_MS, _HIGH_MS = 0.1, 1000.0


def build(sources: Sources, model: str, window: Window) -> Report:
    """Raises duckdb.Error where the log's database itself fails."""
    state = sources.state.read(model)
    history, problem = ([], state.problem) if state.problem else sources.state.history(model)
    with sources.logs[model].reading(window.start_s, window.end_s, window.now_s) as (counts, coverage, kept):
        figures = read_figures(counts, window)
        latest = kept.latest_within(window.start_s, window.end_s, LATEST_ROWS)
    serving, changes = service.in_service(state), changes_within(history, window)
    by_model = {name: log.counts for name, log in sources.logs.items()} | {model: counts}
    ages = read_ages(by_model, window, model)
    fleet = sizing.size(figures.all_peak, figures.tail_peak, state, sources.settings)
    tables = [
        made.over_time(figures, window, changes),
        made.by_source(figures),
        made.version_over_time(figures, window, changes),
        made.latency_over_time(figures, window, changes),
        made.stage_over_time(figures, window, changes),
        made.by_stage(figures),
        made.by_reason(figures),
        made.by_error(figures),
        made.by_version(figures),
        made.by_model((name, *count_hits(of_model, window)) for name, of_model in by_model.items()),
        ages_table(ages, window, changes),
        service.generation_table(serving, state),
        changes_table(changes, problem),
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
        "charts": {**_charts(figures, window, changes), "ages": ages_chart(ages, window, changes)},
        "bars": {row[0]: _bar(figures.latencies.get((str(row[0]), TOTAL))) for row in tables[1].rows},
        "shown_set_aside": coverage.set_aside[:SHOWN_SET_ASIDE],
    }
    return Report(_facts(figures, coverage, newest, serving, fleet), tables, view)


def _charts(figures: Figures, window: Window, changes: Changes) -> dict[str, charts.Chart]:
    counts = {source: (source.capitalize(), figures.steps[source]) for source in made.present_sources(figures)}
    counts = counts or {Source.PRECOMPUTED.value: ("Precomputed", [0] * window.steps)}
    lines: dict[str, tuple[str, list[float | None]]] = {
        f"{group}-{which}": (f"{group.capitalize()} {which}", _values(figures, window, group, which))
        for group in ("hit", Source.LIVE.value)
        for which in ("p50", "p99")
    }
    ticks, marks = window.tick_labels(), changes.steps
    return {
        "share": charts.stacked_shares("share", "Share by source", counts, ticks, "over_time", marks),
        "requests": charts.stacked_counts("requests", "Requests by source", counts, ticks, "over_time", marks),
        "versions": charts.share_lines(
            "versions", "Hit rate by version", _version_lines(figures, window), ticks, "version_over_time", marks
        ),
        "latency": charts.log_lines(
            "latency", "Latency of hits and live answers", lines, ticks, "latency_over_time", marks
        ),
        "stages": charts.log_lines(
            "stages",
            "p99 of a live answer's stages",
            _stage_lines(figures, window),
            ticks,
            "stage_over_time",
            marks,
        ),
    }


def _version_lines(figures: Figures, window: Window) -> dict[str, tuple[str, list[float | None]]]:
    found = {
        f"version-{version}": (
            f"Version {version}",
            [made.hit_rate(requests, hits, step) for step in range(window.steps)],
        )
        for version, (requests, hits) in figures.version_steps.items()
    }
    return found or {"version-": ("", [None] * window.steps)}


def _stage_lines(figures: Figures, window: Window) -> dict[str, tuple[str, list[float | None]]]:
    found = {
        f"stage-{stage}": (
            stage.capitalize(),
            [made.p99_ms(figures, stage, step) for step in range(window.steps)],
        )
        for stage in made.live_stages(figures)
    }
    return found or {"stage-": ("", [None] * window.steps)}


def _values(figures: Figures, window: Window, group: str, which: str) -> list[float | None]:
    found = [figures.latency_steps.get((group, TOTAL, step)) for step in range(window.steps)]
    return [None if one is None else one.p50_ms if which == "p50" else one.p99_ms for one in found]


def _bar(found: Quantiles | None) -> tuple[float, float] | None:
    return charts.range_bar(found.p50_ms, found.p99_ms, _LOW_MS, _HIGH_MS) if found else None


def _facts(
    figures: Figures,
    coverage: Coverage,
    newest: datetime | None,
    serving: service.InService,
    fleet: sizing.Sizing,
) -> dict[str, object]:
    total = figures.requests()
    hit, live = figures.latencies.get(("hit", TOTAL)), figures.latencies.get((Source.LIVE.value, TOTAL))
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
        **_fleet_facts(fleet),
        "newest_row": newest.isoformat() if newest else None,
        "rows_without_time": figures.undated,
        "files": coverage.files,
        "streams": coverage.streams,
        "files_waiting": coverage.waiting,
        "files_set_aside": [{"file": _leaf(one.path), "reason": one.reason} for one in coverage.set_aside],
        "log_problem": coverage.problem,
    }


def _fleet_facts(fleet: sizing.Sizing) -> dict[str, object]:
    estimate = fleet.estimate
    return {
        "peak_requests_per_s": fleet.all_peak.per_s if fleet.all_peak else None,
        "peak_tail_per_s": fleet.tail_peak.per_s if fleet.tail_peak else None,
        "replica_rows_per_s": estimate.rows_per_s if estimate else None,
        "replica_load_without": estimate.load_without if estimate else None,
        "replica_load_with": estimate.load_with if estimate else None,
        "replicas_without": estimate.without if estimate else None,
        "replicas_with": estimate.with_precomputing if estimate else None,
        "fleet_problem": fleet.problem,
    }


def _leaf(path: str) -> str:
    """Partition and name of a file: enough to find it, and nothing of where the data root lies."""
    return "/".join(path.split("/")[-4:])


PAGE = Page("overview", "Overview", "overview.html", build)
