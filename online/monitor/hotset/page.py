"""Hot set: what the nights chose, whether it was worth it, and what came of it."""

from collections.abc import Mapping

from online.monitor.hotset import curves, worth
from online.monitor.hotset import tables as made
from online.monitor.hotset.nights import Realised, Reports, live_spans, read_reports, realised
from online.monitor.pages import Page, Report
from online.monitor.sources import Sources
from online.monitor.windows import RANGES, Window, window_at
from schemas.hotset_report import CHOICE, HotSetReport

# Nights are shown whatever range is chosen, as far as the site keeps the log.
_KEPT = RANGES[-1]


def build(sources: Sources, model: str, window: Window) -> Report:
    """Never raises for Redis, the log or the data root: what cannot be read is told in words."""
    reports = read_reports(sources.settings.data_url, model, sources.files)
    found, problems = _since(sources, model, reports, window.now_s) if reports.nights else ({}, [])
    if reports.problem is not None:
        problems.insert(0, f"{reports.problem}, so what the nights chose is not known.")
    if reports.unreadable:
        problems.append(f"Reports that cannot be read: {', '.join(reports.unreadable)}.")
    newest = reports.nights[0] if reports.nights else None
    rows = curves.coverage_rows(newest)
    tables = [
        made.nights_table(reports),
        made.realised_table(reports, found),
        made.windows_table(newest),
        made.coverage_table(rows),
        worth.value_table(newest),
        worth.log_table(newest),
    ]
    live = next((found[one.generation] for one in reports.nights if found.get(one.generation)), None)
    view = {
        "newest": newest,
        "live": live,
        "live_night": next((one for one in reports.nights if found.get(one.generation)), None),
        "verdict": made.VERDICTS[newest.gate.used] if newest else None,
        "money": worth.money(newest) if newest else None,
        "problems": problems,
        "charts": {
            "coverage": curves.coverage_chart(newest, rows),
            "windows": curves.windows_chart(newest),
            "nights": curves.nights_chart(reports.nights, found),
        },
    }
    return Report(_facts(newest, live, problems), tables, view)


def _since(
    sources: Sources, model: str, reports: Reports, now_s: float
) -> tuple[dict[str, Realised | None], list[str]]:
    """What came of each night's generation, and what of that cannot be known."""
    changes, problem = sources.state.history(model)
    spans = live_spans(changes, now_s)
    kept = window_at(_KEPT, now_s)
    with sources.logs[model].reading(kept.start_s, kept.end_s, kept.now_s) as (counts, coverage, _):
        found = {
            one.generation: realised(counts, spans.get(one.generation, []), kept.start_s) for one in reports.nights
        }
    told = [f"{problem}, so when a generation was live is not known."] if problem else []
    if coverage.problem:
        told.append(f"{coverage.problem[0].upper()}{coverage.problem[1:]}.")
    return found, told


def _facts(newest: HotSetReport | None, live: Realised | None, problems: list[str]) -> Mapping[str, object]:
    backtest = newest.backtest if newest else None
    return {
        "generation": newest.generation if newest else None,
        "chosen": newest.chosen.entities if newest else None,
        "share_of_known": newest.chosen.share_of_known if newest else None,
        "expected_share": newest.chosen.expected_share if newest else None,
        "churn": newest.chosen.churn if newest else None,
        "hit_rate": backtest.hit_rates.get(CHOICE) if backtest else None,
        "never_read_share": backtest.never_read_share if backtest else None,
        "gate": newest.gate.used.value if newest else None,
        "gate_reason": newest.gate.reason if newest else None,
        "replicas_saved": newest.saving.replicas if newest else None,
        "money_saved_a_day": newest.saving.money_a_day if newest else None,
        "live_since": live.since.isoformat() if live else None,
        "realised_share": live.precomputed_share if live else None,
        "problems": problems,
    }


PAGE = Page("hotset", "Hot set", "hotset.html", build)
