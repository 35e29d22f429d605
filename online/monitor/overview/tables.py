"""The Overview's tables of traffic, latency, misses and errors. Pure."""

from collections.abc import Iterable, Sequence

from online.monitor.overview.changes import Changes
from online.monitor.overview.figures import HITS, MOST_VERSIONS, SOURCES, Figures, Quantiles
from online.monitor.requestlog.sql import ERROR, LATEST_COLUMNS, TOTAL
from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import Window, utc
from schemas.http import Source
from schemas.names import STAGES

NO_REQUESTS = "No requests yet in this time range."
NO_LIVE = "No live answers in this time range."
BIN_NOTE = "p50 and p99 by nearest rank over bins 1 % wide, so within 0.5 % of the logged microseconds."
_LIVE = Source.LIVE.value


def over_time(figures: Figures, window: Window, changes: Changes) -> Table:
    """Requests of each step by source, and the hit rate. A source without requests has no column."""
    sources = present_sources(figures)
    columns = [
        Column("from", "From (UTC)", Kind.TIME),
        *(Column(source, source.capitalize(), Kind.COUNT) for source in sources),
        Column("requests", "All", Kind.COUNT),
        Column("hit_rate", "Hit rate", Kind.SHARE),
        *changes.column,
    ]
    rows: list[Sequence[Cell]] = []
    for step in range(window.steps):
        counts = [figures.steps[source][step] for source in sources]
        total = sum(counts)
        hits = sum(figures.steps[source][step] for source in HITS)
        rate = hits / total if total else None
        rows.append([window.step_start(step), *counts, total, rate, *changes.cell(step)])
    return Table(
        "over_time",
        "Requests and hit rate over time",
        columns,
        rows if figures.requests() else [],
        NO_REQUESTS,
        "Every row of the log by the UTC time of its answer. Hit rate: precomputed and cached over all.",
    )


def by_source(figures: Figures) -> Table:
    columns = [
        Column("source", "Source"),
        Column("requests", "Requests", Kind.COUNT),
        Column("share", "Share", Kind.SHARE),
        Column("p50_ms", "p50 ms", Kind.MS),
        Column("p99_ms", "p99 ms", Kind.MS),
    ]
    total = figures.requests()
    rows = [
        [source, figures.requests(source), figures.requests(source) / total, *_p(figures, source, TOTAL)]
        for source in present_sources(figures)
    ]
    return Table("by_source", "By source", columns, rows, NO_REQUESTS, f"Whole answers. {BIN_NOTE}")


def by_stage(figures: Figures) -> Table:
    """Stages down, paths across. A stage that no answer passed through is left out."""
    paths = present_sources(figures)
    columns = [
        Column("stage", "Stage"),
        *(
            Column(f"{path}_{which}_ms", f"{path.capitalize()} {which}", Kind.MS)
            for path in paths
            for which in ("p50", "p99")
        ),
    ]
    rows: list[Sequence[Cell]] = [
        [stage, *(cell for path in paths for cell in _p(figures, path, stage))]
        for stage in (*STAGES, TOTAL)
        if ("all", stage) in figures.latencies
    ]
    note = (
        "In ms. A path is the source of an answer; only answers that passed through a stage count in it. "
        + BIN_NOTE
    )
    return Table("by_stage", "By path and stage", columns, rows, NO_REQUESTS, note)


def stage_over_time(figures: Figures, window: Window, changes: Changes) -> Table:
    """p99 of each stage of live answers."""
    stages = live_stages(figures)
    columns = [
        Column("from", "From (UTC)", Kind.TIME),
        *(Column(f"stage_{stage}", f"{stage.capitalize()} p99 ms", Kind.MS) for stage in stages),
        *changes.column,
    ]
    rows: list[Sequence[Cell]] = [
        [window.step_start(step), *(p99_ms(figures, stage, step) for stage in stages), *changes.cell(step)]
        for step in range(window.steps)
    ]
    note = (
        f"Of live answers that passed through the stage; p99s of stages do not add up to that of all. {BIN_NOTE}"
    )
    return Table(
        "stage_over_time", "Stages of live answers over time", columns, rows if stages else [], NO_LIVE, note
    )


def version_over_time(figures: Figures, window: Window, changes: Changes) -> Table:
    """Hit rate of the most frequent versions."""
    versions = list(figures.version_steps)
    columns = [
        Column("from", "From (UTC)", Kind.TIME),
        *(Column(f"version_{version}", f"Version {version}", Kind.SHARE) for version in versions),
        *changes.column,
    ]
    rows: list[Sequence[Cell]] = [
        [
            window.step_start(step),
            *(hit_rate(*figures.version_steps[version], step) for version in versions),
            *changes.cell(step),
        ]
        for step in range(window.steps)
    ]
    note = (
        "Precomputed and cached over all answers that the version computed; errors have none. The"
        f" {MOST_VERSIONS} versions with the most answers."
    )
    return Table(
        "version_over_time", "Hit rate by version over time", columns, rows if versions else [], NO_REQUESTS, note
    )


def by_model(models: Iterable[tuple[str, int, int]]) -> Table:
    """Args: models: (model, requests, hits)."""
    columns = [
        Column("model", "Model"),
        Column("requests", "Requests", Kind.COUNT),
        Column("hit_rate", "Hit rate", Kind.SHARE),
    ]
    rows: list[Sequence[Cell]] = [[model, n, hits / n if n else None] for model, n, hits in models]
    note = "Every model that this site shows, in this time range, as of at most some seconds ago."
    return Table("by_model", "By model", columns, rows, NO_REQUESTS, note)


def latency_over_time(figures: Figures, window: Window, changes: Changes) -> Table:
    columns = [
        Column("from", "From (UTC)", Kind.TIME),
        *(
            Column(f"{group}_{which}_ms", f"{group.capitalize()} {which} ms", Kind.MS)
            for group in ("hit", _LIVE)
            for which in ("p50", "p99")
        ),
        *changes.column,
    ]
    rows: list[Sequence[Cell]] = [
        [
            window.step_start(step),
            *_p50_p99(figures, "hit", step),
            *_p50_p99(figures, _LIVE, step),
            *changes.cell(step),
        ]
        for step in range(window.steps)
    ]
    return Table(
        "latency_over_time",
        "Latency over time",
        columns,
        rows if figures.latency_steps else [],
        NO_REQUESTS,
        f"Whole answers. {BIN_NOTE}",
    )


def by_reason(figures: Figures) -> Table:
    columns = [
        Column("reason", "Reason"),
        Column("requests", "Requests", Kind.COUNT),
        Column("share", "Share", Kind.SHARE),
        Column("cached", "Cached", Kind.COUNT),
        Column("live", "Live", Kind.COUNT),
        Column("degraded", "Stale, default", Kind.COUNT),
    ]
    total = sum(sum(by.values()) for _, by in figures.reasons)
    rows: list[Sequence[Cell]] = []
    for reason, by in figures.reasons:
        n, cached, live = sum(by.values()), by.get(Source.CACHED.value, 0), by.get(_LIVE, 0)
        rows.append([reason or "none given", n, n / total, cached, live, n - cached - live])
    return Table(
        "by_reason",
        "Why answers were not precomputed",
        columns,
        rows,
        "Every answer of this time range was precomputed." if figures.requests() else NO_REQUESTS,
        "Answers whose source is not precomputed, by the log's reason; shares are of these. Errors stand apart.",
    )


def by_error(figures: Figures) -> Table:
    columns = [
        Column("code", "Code"),
        Column("status", "HTTP status"),
        Column("requests", "Requests", Kind.COUNT),
        Column("share", "Share of all", Kind.SHARE),
    ]
    total = figures.requests()
    rows = [
        [code or "none given", None if status is None else str(status), n, n / total]
        for code, status, n in figures.errors
    ]
    return Table(
        "by_error",
        "Errors by code",
        columns,
        rows,
        "No errors in this time range." if total else NO_REQUESTS,
        "Rows without a source: a problem document was the answer. The 50 most frequent.",
    )


def by_version(figures: Figures) -> Table:
    columns = [
        Column("version", "Version"),
        Column("requests", "Requests", Kind.COUNT),
        Column("share", "Share", Kind.SHARE),
        Column("hit_rate", "Hit rate", Kind.SHARE),
        Column("live", "Live", Kind.COUNT),
    ]
    total = figures.requests()
    rows: list[Sequence[Cell]] = [
        [version, n, n / total, hits / n, live] for version, n, hits, live in figures.versions
    ]
    note = "By the version that computed the answer; errors without one are left out. The 50 most frequent."
    return Table("by_version", "By version", columns, rows, NO_REQUESTS, note)


def latest(rows: Iterable[tuple[object, ...]]) -> Table:
    """The newest rows; identifiers as they were sent."""
    columns = [
        Column("time", "Time (UTC)", Kind.TIME),
        Column("entity", "Entity"),
        Column("source", "Source"),
        Column("miss_reason", "Miss reason"),
        Column("version", "Version"),
        Column("generation", "Generation"),
        Column("label", "Label"),
        Column("confidence", "Confidence", Kind.SHARE),
        Column("status", "Status"),
        Column("code", "Code"),
        Column("total_ms", "Total ms", Kind.MS),
        Column("request_id", "Request"),
    ]
    cells = []
    for microseconds, *others in rows:
        by = dict(zip(LATEST_COLUMNS, others, strict=True))
        by["source"] = by["source"] or ERROR
        cells.append([utc(int(str(microseconds)) / 1e6), *(_latest_cell(by, c.key) for c in columns[1:])])
    note = "Streams that are not yet Parquet included: as new as the API's last flush, about a second."
    return Table("latest", "Latest requests", columns, cells, NO_REQUESTS, note)


def _latest_cell(by: dict[str, object], key: str) -> Cell:
    if key == "total_ms":
        microseconds = by["total_us"]
        return None if microseconds is None else float(str(microseconds)) / 1e3
    value = by[key]
    if value is None:
        return None
    if key == "confidence":
        number = float(str(value))
        return number if 0 <= number <= 1 else None
    return str(value)


def present_sources(figures: Figures) -> list[str]:
    """Sources with at least one request, in the order in which they are stacked."""
    return [source for source in SOURCES if figures.requests(source)]


def live_stages(figures: Figures) -> list[str]:
    """Stages that a live answer passed through."""
    return [stage for stage in STAGES if (_LIVE, stage) in figures.latencies]


def p99_ms(figures: Figures, stage: str, step: int) -> float | None:
    found = figures.latency_steps.get((_LIVE, stage, step))
    return found.p99_ms if found else None


def hit_rate(requests: Sequence[int], hits: Sequence[int], step: int) -> float | None:
    return hits[step] / requests[step] if requests[step] else None


def _p(figures: Figures, group: str, stage: str) -> list[Cell]:
    return _all(figures.latencies.get((group, stage)))[1:]


def _all(found: Quantiles | None) -> list[Cell]:
    return [found.requests, found.p50_ms, found.p99_ms] if found else [None, None, None]


def _p50_p99(figures: Figures, group: str, step: int) -> list[Cell]:
    return _all(figures.latency_steps.get((group, TOTAL, step)))[1:]
