"""Drift of inputs and outputs against the training baseline, as the drift job found it: reading, and tables."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

import pyarrow as pa

from online.monitor.tables import Cell, Column, Kind, Table
from schemas.drift import ALARM, HITS, TAIL, TOO_FEW, DriftReport, DriftRow, Told, read_reports, read_rows
from schemas.kept_files import KeptFiles

logger = logging.getLogger(__name__)

MOST_REPORTS = 30
TITLES = {HITS: "Drift of hits", TAIL: "Drift of the tail"}
NO_RESULTS = (
    "No drift results yet: run python -m batch_scoring.drift --model MODEL, or switch the DAG drift_watch on."
    " Answers must have been sampled (API_LOG_SAMPLE) for some days before."
)
_HOW = (
    "Each is compared by itself. PSI and Jensen-Shannon (bits) are of the bins of the training baseline; at most:"
    " what chance and the tolerated shift allow of so many different rows."
)


@dataclass(frozen=True, slots=True)
class DriftResults:
    """The newest reports, newest first; `rows` are those of the first, worst first."""

    reports: tuple[DriftReport, ...] = ()
    rows: tuple[DriftRow, ...] = ()
    problem: str | None = None

    @property
    def newest(self) -> DriftReport | None:
        return self.reports[0] if self.reports else None

    def of(self, population: str) -> list[DriftRow]:
        return [row for row in self.rows if row.population == population]

    def count(self, level: str, population: str) -> int:
        return sum(row.level == level for row in self.of(population))


def read_drift(data_url: str, model: str, kept: KeptFiles | None = None) -> DriftResults:
    """The job's own trouble is told, never raised."""
    try:
        reports = tuple(read_reports(data_url, model, MOST_REPORTS, kept=kept))
    except OSError as error:
        logger.warning("the drift results cannot be listed", exc_info=True)
        return DriftResults(problem=f"The drift results cannot be read ({type(error).__name__}).")
    if not reports:
        return DriftResults()
    try:
        return DriftResults(reports, tuple(read_rows(data_url, reports[0], kept)))
    except (OSError, ValueError, pa.ArrowException) as error:
        logger.warning("the drift results cannot be read", exc_info=True)
        problem = f"The histograms of the newest window cannot be read ({type(error).__name__})."
        return DriftResults(reports, problem=problem)


def drift_table(results: DriftResults, population: str) -> Table:
    """Every feature and output, the worst first."""
    columns = [
        Column("name", "Name"),
        Column("side", "Side"),
        Column("level", "Level"),
        Column("psi", "PSI", Kind.MS),
        Column("psi_threshold", "at most", Kind.MS),
        Column("jensen_shannon", "Jensen-Shannon", Kind.MS),
        Column("jensen_shannon_threshold", "at most", Kind.MS),
        Column("rows", "Rows", Kind.COUNT),
        Column("effective_rows", "Different rows", Kind.COUNT),
        Column("missing", "Null or absent", Kind.SHARE),
        Column("outside", "Outside", Kind.SHARE),
        Column("found", "What was found"),
    ]
    rows: list[Sequence[Cell]] = [_drift_row(row) for row in results.of(population)]
    name = f"drift_{population}"
    return Table(name, TITLES[population], columns, rows, _none_of(results), f"{_from(results)} {_HOW}")


def _drift_row(row: DriftRow) -> list[Cell]:
    return [
        row.name,
        row.side,
        row.level.replace("_", " "),
        row.psi,
        row.psi_threshold,
        row.jensen_shannon,
        row.jensen_shannon_threshold,
        row.rows,
        row.effective_rows,
        (row.nulls + row.absent) / row.rows if row.rows else None,
        row.outside / row.rows if row.rows else None,
        "; ".join(row.reasons) or "nothing",
    ]


def _none_of(results: DriftResults) -> str:
    return "The results have no such rows." if results.reports else NO_RESULTS


def _from(results: DriftResults) -> str:
    newest = results.newest
    if newest is None:
        return ""
    begin, end = (moment.astimezone(UTC) for moment in newest.window)
    said = f"Sampled answers of version {newest.version}, {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    when = f", computed {newest.computed_at.astimezone(UTC):%Y-%m-%d %H:%M}" if newest.computed_at else ""
    return f"{said}{when}, from {newest.log_files:,} log files."


def alarms_table(results: DriftResults) -> Table:
    """Alarms and warnings of all reports read, newest first."""
    columns = [
        Column("window_end", "Window's end (UTC)", Kind.TIME),
        Column("level", "Level"),
        Column("population", "Population"),
        Column("name", "Name"),
        Column("side", "Side"),
        Column("kinds", "Kinds"),
        Column("reasons", "Reasons"),
        Column("version", "Version"),
    ]
    rows: list[Sequence[Cell]] = [
        _told_row(report, level, told)
        for report in results.reports
        for level, some in ((ALARM, report.alarms), ("warning", report.warnings))
        for told in some
    ]
    empty = "No alarm in the windows read." if results.reports else NO_RESULTS
    note = (
        f"Of the newest {MOST_REPORTS} windows. A warning needs nobody: a standing difference, or a new category."
    )
    return Table("alarms", "Alarms and warnings", columns, rows, empty, note)


def _told_row(report: DriftReport, level: str, told: Told) -> list[Cell]:
    named = [told.population, told.name, told.side, ", ".join(told.kinds), "; ".join(told.reasons)]
    return [report.window_end.astimezone(UTC), level, *named, report.version]


def windows_table(results: DriftResults) -> Table:
    columns = [
        Column("window_begin", "From (UTC)", Kind.TIME),
        Column("window_end", "To (UTC)", Kind.TIME),
        Column("version", "Version"),
        Column("hits", "Rows of hits", Kind.COUNT),
        Column("tail", "Rows of the tail", Kind.COUNT),
        Column("others", "Of other versions", Kind.COUNT),
        Column("alarms", "Alarms", Kind.COUNT),
        Column("warnings", "Warnings", Kind.COUNT),
        Column("too_few", "Too few rows", Kind.COUNT),
        Column("computed_at", "Computed (UTC)", Kind.TIME),
    ]
    rows: list[Sequence[Cell]] = [
        [
            report.window_begin.astimezone(UTC),
            report.window_end.astimezone(UTC),
            report.version,
            report.rows.get(HITS, 0),
            report.rows.get(TAIL, 0),
            sum(report.rows_of_other_versions.values()),
            len(report.alarms),
            len(report.warnings),
            report.levels.get(TOO_FEW, 0),
            report.computed_at.astimezone(UTC) if report.computed_at else None,
        ]
        for report in results.reports
    ]
    note = "Sampled answers only. Too few rows: features and outputs of which nothing can be said."
    return Table("windows", "Windows that were watched", columns, rows, NO_RESULTS, note)
