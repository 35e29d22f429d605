"""Quality: confidence, drift of hits and of the tail against the baseline, parity of stored against live."""

from online.monitor.pages import Page, Report
from online.monitor.quality import drift as drifted
from online.monitor.quality import parity as compared
from online.monitor.quality.confidence import (
    ALL_STEPS,
    Figures,
    confidence_chart,
    confidence_table,
    read_confidence,
)
from online.monitor.quality.histograms import SHOWN_OF_EACH, drawn
from online.monitor.sources import Sources
from online.monitor.windows import Window
from schemas.drift import ALARM, HITS, POPULATIONS, TAIL, TOO_FEW


def build(sources: Sources, model: str, window: Window) -> Report:
    """Never raises for the log, the results or the data root: what cannot be read is told in words."""
    with sources.logs[model].reading(window.start_s, window.end_s, window.now_s) as (counts, coverage, _):
        confidence = read_confidence(counts, window)
    results = drifted.read_drift(sources.settings.data_url, model, sources.files)
    found = sources.parity[model].read(window)
    parity = compared.parity_of(found)
    histograms = {HITS: drawn(results.of(HITS), 1), TAIL: drawn(results.of(TAIL), 1 + SHOWN_OF_EACH)}
    tables = [
        confidence_table(confidence, window),
        drifted.alarms_table(results),
        *(drifted.drift_table(results, population) for population in POPULATIONS),
        *(one.table for population in POPULATIONS for one in histograms[population]),
        drifted.windows_table(results),
        compared.parity_table(parity),
        compared.over_time_table(found, window),
        compared.differences_table(found),
        compared.skipped_table(parity),
    ]
    problems = [one for one in (coverage.problem, results.problem, found.problem) if one]
    if found.unread:
        problems.append(f"{found.unread} files of the parity log cannot be read, and are not counted.")
    view = {
        "confidence": confidence_chart(confidence, window),
        "hits": confidence.get((HITS, ALL_STEPS)),
        "tail": confidence.get((TAIL, ALL_STEPS)),
        "results": results,
        "histograms": histograms,
        "titles": drifted.TITLES,
        "parity": parity,
        "compared": found,
        "parity_chart": compared.parity_chart(found, window),
        "problems": problems,
    }
    return Report(_facts(confidence, results, parity, problems), tables, view)


def _facts(
    confidence: Figures, results: drifted.DriftResults, parity: compared.Parity, problems: list[str]
) -> dict[str, object]:
    newest = results.newest
    of_each: dict[str, object] = {}
    for population in POPULATIONS:
        told = confidence.get((population, ALL_STEPS))
        of_each |= {
            f"confidence_{population}_mean": told.mean if told else None,
            f"confidence_{population}_answers": told.answers if told else 0,
            f"drift_alarms_{population}": results.count(ALARM, population),
            f"drift_too_few_{population}": results.count(TOO_FEW, population),
        }
    return {
        **of_each,
        "drift_version": newest.version if newest else None,
        "drift_from": newest.window_begin.isoformat() if newest else None,
        "drift_to": newest.window_end.isoformat() if newest else None,
        "drift_computed_at": newest.computed_at.isoformat() if newest and newest.computed_at else None,
        "parity_compared": parity.compared,
        "parity_kinds": dict(parity.kinds),
        "parity_skipped": dict(parity.skipped),
        "parity_alarms": parity.alarms,
        "problems": problems,
    }


PAGE = Page("quality", "Quality", "quality.html", build)
