"""What the drift job leaves for readers: the words it uses, the report of a window, and where both files lie.

In `drift/model=M/date=D/` (D: the window's last day) a window has `FROM--TO.json`, the `DriftReport` here, and
`FROM--TO.parquet`, a row of `schemas.arrow.DRIFT` for each population and feature or output. The report is written
last: where it is, the other is too. Written by `batch_scoring.drift`, read by the site and by who sends alarms.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from schemas.arrow import DRIFT_VERSION
from schemas.kept_files import KeptFiles
from schemas.names import DRIFT, drift_path, interval_name

# Precomputed and cached answers, and live ones: not the same entities, so each is compared by itself.
HITS, TAIL = "hits", "tail"
POPULATIONS = (HITS, TAIL)
INPUT, OUTPUT = "input", "output"
NUMBER, CATEGORY, TEXT = "number", "category", "text"
ALARM, WARNING, FINE, TOO_FEW = "alarm", "warning", "fine", "too_few_rows"
LEVELS = (ALARM, WARNING, TOO_FEW, FINE)  # in the order of their weight
WEEK = timedelta(days=7)

Window = tuple[datetime, datetime]
_DATE = re.compile(r"date=([0-9]{4}-[0-9]{2}-[0-9]{2})\Z")


class _Document(BaseModel):
    # Unknown fields are left aside: a newer job may write some.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Told(_Document):
    """An alarm or warning: of which population and feature or output, and why."""

    population: str
    side: str
    name: str
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]
    new_values: tuple[str, ...] = ()
    rows: int


class DriftReport(_Document):
    """What a person reads first of a window: the alarms and warnings, and what they rest on.

    Attributes:
        rows, records: sampled answers, and those of them with inputs, by population.
        levels: features and outputs by level.
        computed_at: None in reports of older jobs.
    """

    drift_version: int = Field(DRIFT_VERSION, ge=1, le=DRIFT_VERSION)
    model: str
    version: str
    window_begin: AwareDatetime
    window_end: AwareDatetime
    computed_at: AwareDatetime | None = None
    rows: dict[str, int]
    records: dict[str, int]
    inputs_from_the_night: int = 0
    rows_of_other_versions: dict[str, int] = {}
    levels: dict[str, int]
    alarms: tuple[Told, ...]
    warnings: tuple[Told, ...]
    log_files: int = 0
    log_files_aside: dict[str, str] = {}
    rules: dict[str, float] = {}

    @property
    def window(self) -> Window:
        return self.window_begin, self.window_end


@dataclass(frozen=True, slots=True)
class DriftRow:
    """A row of `DRIFT`: one feature or output of one population. Statistics are None where nothing is compared."""

    version: str
    population: str
    side: str
    name: str
    type: str
    level: str
    kinds: list[str]
    reasons: list[str]
    rows: int
    effective_rows: float
    nulls: int
    absent: int
    withheld: int
    outside: int
    new_values: list[str]
    new_counts: list[int]
    psi: float | None
    psi_threshold: float | None
    jensen_shannon: float | None
    jensen_shannon_threshold: float | None
    baseline_rows: int
    baseline_nulls: int
    edges: list[float] | None
    values: list[str] | None
    baseline_counts: list[int]
    counts: list[int]

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        return cls(**{one.name: row[one.name] for one in fields(cls)})


def results_path(model: str, window: Window) -> str:
    """Where the results of a window lie, relative to the data root and without the suffix."""
    begin, end = window
    last_day = (end.astimezone(UTC) - timedelta(microseconds=1)).date()
    return f"{drift_path(model, last_day)}/{interval_name(begin)}--{interval_name(end)}"


def read_reports(
    data_url: str, model: str, most: int, since: date | None = None, kept: KeptFiles | None = None
) -> list[DriftReport]:
    """The newest reports, newest window first; a file that is none counts as absent. Raises OSError.

    Args:
        since: no window that ended before this day (UTC).
        kept: for readers that come again: what has not changed is not read again.
    """
    kept = kept or KeptFiles()
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{DRIFT}/model={model}"
    days = sorted((found[1], path) for path in kept.list(filesystem, folder) if (found := _DATE.search(path)))
    reports: list[DriftReport] = []
    for day, path in reversed(days):
        if len(reports) >= most or (since is not None and day < since.isoformat()):
            break
        files = (file for file in kept.list(filesystem, path) if file.endswith(".json"))
        reports += (report for file in files if (report := kept.read(filesystem, file, _report)) is not None)
    # Of windows that ended together, the longer one says more.
    reports.sort(key=lambda one: (one.window_end, one.window_end - one.window_begin), reverse=True)
    return reports[:most]


def read_report(data_url: str, model: str, window: Window) -> DriftReport | None:
    """The report of just this window, or None where there is none. Raises OSError."""
    filesystem, path = _place(data_url, model, window, "json")
    try:
        return _report(filesystem.cat_file(path))
    except FileNotFoundError:
        return None


def read_rows(data_url: str, report: DriftReport, kept: KeptFiles | None = None) -> list[DriftRow]:
    """All features and outputs of a report's window, worst first. Raises OSError, ValueError."""
    filesystem, path = _place(data_url, report.model, report.window, "parquet")
    return (kept or KeptFiles()).read(filesystem, path, _rows)


def _rows(raw: bytes) -> list[DriftRow]:
    rows: Sequence[dict[str, Any]] = pq.read_table(pa.BufferReader(raw)).to_pylist()
    try:
        return [DriftRow.of(row) for row in rows]
    except KeyError as missing:
        raise ValueError(f"the drift results have no column {missing}") from None


def _place(data_url: str, model: str, window: Window, suffix: str) -> tuple[Any, str]:
    filesystem, root = fsspec.core.url_to_fs(data_url)
    return filesystem, f"{root.rstrip('/')}/{results_path(model, window)}.{suffix}"


def _report(raw: bytes) -> DriftReport | None:
    try:
        return DriftReport.model_validate_json(raw)
    except ValidationError:
        return None
