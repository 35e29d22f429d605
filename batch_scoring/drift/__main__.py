"""Compares what a model was asked, and what it said, with its training data: hits and the tail, each by itself.

Reads the sampled rows of the request log over a window, counts them in the bins of the version's baseline, and
says which features and outputs have changed, by more than chance and by more than matters. Results lie in
`drift/model=…/date=…/` under the data root: a Parquet file with both histograms of every feature, and a JSON
report.

Exit status: 0 done, whatever was found (with --fail-on-alarm: 3 where there is an alarm); 1 for what may succeed
when tried again; 2 for what was refused, with the reason in words.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from batch_scoring.drift.counting import CountTask
from batch_scoring.drift.histograms import read_baseline
from batch_scoring.drift.results import report_of, results_url, write_findings, write_report
from batch_scoring.drift.rules import Finding, Rules, judge
from batch_scoring.drift.sampled import BEFORE, GONE, WINDOW, Period
from batch_scoring.drift.samples import Counts, count_samples
from batch_scoring.drift.window import window_of
from batch_scoring.faults import NotTaken
from batch_scoring.files import absolute, file_system
from batch_scoring.hotset.log_files import LogFiles, log_files
from batch_scoring.job import configure_logs, guarded
from batch_scoring.publishing.begin import published_digest
from batch_scoring.publishing.document import read_document
from batch_scoring.runs import LOG, Refused
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.bundle import Bundle, fetch_bundle
from schemas.drift import WEEK, DriftReport, Window
from schemas.names import check_name
from schemas.settings import load_settings

ALARMED = 3
_WEEKS_BEFORE = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """`bundle_url` and `version`: None for the version in service."""

    model: str
    window: Window
    version: str | None
    bundle_url: str | None
    rules: Rules


def watch(settings: BatchSettings, asked: Asked) -> DriftReport:
    """Writes the window's results and returns the report. Raises Refused and BundleError.

    FileNotFoundError: a file of the log was compacted or deleted meanwhile.
    """
    bundle_url, bundle = _bundle(settings, asked)
    baselines = read_baseline(bundle.folder)
    task = CountTask(
        *(bundle_url, bundle.digest, settings.cache_dir),
        tuple(absolute(url) for url in settings.allowed_bundle_urls),
        bundle.manifest,
        tuple(baselines),
    )
    periods = periods_of(asked.window)
    files = _files(settings, asked.model, periods)
    LOG.info("%s: drift over %s, %d log files ...", asked.model, _said(asked.window), len(files.good))
    with spark_session(f"hotset-drift-{asked.model}") as spark:
        counts = count_samples(spark, files, periods, task, absolute(settings.data_url))
    if GONE in counts.damaged.values():
        raise FileNotFoundError(next(url for url, reason in counts.damaged.items() if reason == GONE))
    for url, reason in counts.damaged.items():
        filesystem, path = file_system(url)
        files.set_aside(filesystem, path, reason)
    window, before = counts.samples.get(WINDOW, {}), counts.samples.get(BEFORE, {})
    findings = judge(baselines, window, before, is_whole_weeks(asked.window), asked.rules)
    return _written(settings, asked, bundle.manifest.version, findings, counts, files)


def _written(
    settings: BatchSettings, asked: Asked, version: str, findings: list[Finding], counts: Counts, files: LogFiles
) -> DriftReport:
    report = report_of(asked.model, version, asked.window, findings, counts, files, asked.rules)
    url = results_url(settings.data_url, asked.model, asked.window)
    write_findings(url, asked.window, version, findings)
    write_report(url, report)
    return report


def periods_of(window: Window) -> list[Period]:
    """The window, and the same hours of four times before: a week back each or, for longer windows, more weeks."""
    begin, end = window
    step = WEEK * max(1, -(-(end - begin) // WEEK))
    shifts = (step * time for time in range(1, _WEEKS_BEFORE + 1))
    return [Period(WINDOW, begin, end), *(Period(BEFORE, begin - shift, end - shift) for shift in shifts)]


def is_whole_weeks(window: Window) -> bool:
    begin, end = window
    return (end - begin) % WEEK == timedelta(0)


def _files(settings: BatchSettings, model: str, periods: Sequence[Period]) -> LogFiles:
    """Of all periods; their hours do not overlap, but where a window ends within an hour."""
    found = [log_files(settings.data_url, model, period.begin, period.end) for period in periods]
    whole = found[0]
    for other in found[1:]:
        whole.good |= other.good
        whole.aside |= other.aside
    whole.rows = sum(one.rows for one in found)
    return whole


def _bundle(settings: BatchSettings, asked: Asked) -> tuple[str, Bundle]:
    """The bundle whose baseline counts, and its address."""
    if asked.bundle_url is not None:
        url = absolute(asked.bundle_url)
        digest = published_digest(url)
    else:
        with connect(settings) as redis:
            document = read_document(redis, asked.model)
        if document is None:
            raise Refused(f"nothing of {asked.model} is in service: name a bundle by --bundle")
        version = document.versions.get(asked.version or document.stable)
        if version is None:
            raise Refused(
                f"version {asked.version} of {asked.model} is not in service: name its bundle by --bundle"
            )
        url, digest = version.bundle_url, version.bundle_digest
    bundle = fetch_bundle(url, digest, Path(settings.cache_dir), settings.allowed_bundle_urls)
    if bundle.manifest.name != asked.model:
        raise Refused(f"{url} is a bundle of the model {bundle.manifest.name}, not of {asked.model}")
    return url, bundle


def _said(window: Window) -> str:
    return f"{window[0]:%Y-%m-%d %H:%M} to {window[1]:%Y-%m-%d %H:%M} UTC"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m batch_scoring.drift",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", required=True, help="whose log and baseline are compared")
    parser.add_argument("--from", dest="begin", help="date or time, UTC (default: seven days before --to)")
    parser.add_argument(
        "--to", dest="end", help="date or time, UTC, not part of the window (default: today, 00:00)"
    )
    parser.add_argument("--version", help="a routed one (default: the one in service)")
    parser.add_argument("--bundle", help="folder or fsspec URL of a bundle, instead of asking Redis for it")
    rules = Rules()
    parser.add_argument(
        "--tolerated-psi",
        type=float,
        default=rules.tolerated_psi,
        help="a shift up to this is none, however many rows show it (default: %(default)s)",
    )
    parser.add_argument(
        "--least-rows",
        type=int,
        default=rules.least_rows,
        help="different sampled rows below which nothing is said (default: %(default)s)",
    )
    parser.add_argument("--fail-on-alarm", action="store_true", help="exit status 3 where there is an alarm")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    configure_logs()

    def once() -> int:
        try:
            check_name(given.model, "model")
        except ValueError as error:
            raise Refused(str(error)) from None
        if given.tolerated_psi < 0 or given.least_rows < 1:
            raise Refused("--tolerated-psi must not be negative, and --least-rows at least 1")
        rules = Rules(tolerated_psi=given.tolerated_psi, least_rows=given.least_rows)
        window = window_of(given.begin, given.end, datetime.now(UTC))
        asked = Asked(given.model, window, given.version, given.bundle, rules)
        try:
            report = watch(load_settings(BatchSettings), asked)
        except FileNotFoundError as error:
            raise NotTaken(f"a file of the log is gone, as after compaction or retention: {error}") from None
        for level, found in (("alarm", report.alarms), ("warning", report.warnings)):
            for one in found:
                LOG.warning("%s: %s %s: %s", level, one.population, one.name, "; ".join(one.reasons))
        sys.stdout.write(json.dumps(report.model_dump(mode="json"), sort_keys=True) + "\n")
        return ALARMED if given.fail_on_alarm and report.alarms else 0

    return guarded(once)


if __name__ == "__main__":
    raise SystemExit(main())
