"""Findings as they are kept: a Parquet file for the site, and a JSON report for people and alarms.

Both lie in `drift/model=…/date=…/`, the date being that of the window's last day, and are named by the window; the
report comes last, so that where it is, the other is too. Running a window again replaces both.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.drift.rules import Finding, Rules
from batch_scoring.drift.samples import Counts
from batch_scoring.files import file_system, write_json
from batch_scoring.hotset.log_files import LogFiles
from schemas.arrow import DRIFT
from schemas.drift import ALARM, LEVELS, WARNING, DriftReport, Told, Window, results_path


def results_url(data_url: str, model: str, window: Window) -> str:
    """Address of a window's results, without the suffix."""
    return f"{data_url.rstrip('/')}/{results_path(model, window)}"


def write_findings(url: str, window: Window, version: str, findings: Sequence[Finding]) -> None:
    """`URL.parquet`, whole or not at all."""
    filesystem, path = file_system(f"{url}.parquet")
    folder, _, name = path.rpartition("/")
    filesystem.makedirs(folder, exist_ok=True)
    staged = f"{folder}/.{name}.part"
    rows = [_row(window, version, finding) for finding in findings]
    with filesystem.open(staged, "wb") as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=DRIFT), file)
    filesystem.mv(staged, path)


def _row(window: Window, version: str, finding: Finding) -> dict[str, object]:
    baseline, found, apart = finding.baseline, finding.histogram, finding.distance
    row: dict[str, object] = {
        "window_begin": window[0],
        "window_end": window[1],
        "version": version,
        "population": finding.population,
        "side": baseline.side,
        "name": baseline.name,
        "type": baseline.type,
        "level": finding.level,
        "kinds": finding.kinds,
        "reasons": finding.reasons,
        "rows": found.rows,
        "effective_rows": finding.effective_rows,
        "nulls": found.nulls,
        "absent": found.absent,
        "withheld": found.withheld,
        "outside": found.outside,
        "new_values": list(found.new),
        "new_counts": list(found.new.values()),
        "baseline_rows": baseline.rows,
        "baseline_nulls": baseline.nulls,
        "edges": list(baseline.edges) or None,
        "values": list(baseline.values) if baseline.is_category else None,
        "baseline_counts": list(baseline.counts),
        "counts": found.counts.tolist(),
    }
    if apart is not None:
        row |= {"psi": apart.psi, "jensen_shannon": apart.jensen_shannon, "freedom": apart.freedom}
    if apart is not None and apart.freedom:
        row |= {
            "psi_threshold": apart.psi_threshold,
            "jensen_shannon_threshold": apart.jensen_shannon_threshold,
        }
    return row


def report_of(
    model: str,
    version: str,
    window: Window,
    findings: Sequence[Finding],
    counts: Counts,
    files: LogFiles,
    rules: Rules,
) -> DriftReport:
    """What a person reads first: the alarms and warnings, and how many rows they rest on."""
    samples = counts.samples.get("window", {})
    levels = Counter(finding.level for finding in findings)
    return DriftReport(
        model=model,
        version=version,
        window_begin=window[0],
        window_end=window[1],
        computed_at=datetime.now(UTC),
        rows={name: sample.rows for name, sample in sorted(samples.items())},
        records={name: sample.records for name, sample in sorted(samples.items())},
        inputs_from_the_night=counts.joined,
        rows_of_other_versions=dict(counts.of_others),
        levels={level: levels.get(level, 0) for level in LEVELS},
        alarms=tuple(_told(finding) for finding in findings if finding.level == ALARM),
        warnings=tuple(_told(finding) for finding in findings if finding.level == WARNING),
        log_files=len(files.good) - len(counts.damaged),
        log_files_aside=dict(files.aside),
        rules=asdict(rules),
    )


def _told(finding: Finding) -> Told:
    return Told(
        population=finding.population,
        side=finding.baseline.side,
        name=finding.baseline.name,
        kinds=tuple(finding.kinds),
        reasons=tuple(finding.reasons),
        new_values=tuple(finding.histogram.new),
        rows=finding.histogram.rows,
    )


def write_report(url: str, report: DriftReport) -> None:
    """`URL.json`."""
    write_json(f"{url}.json", report.model_dump(mode="json"))
