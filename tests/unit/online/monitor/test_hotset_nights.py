"""When a generation was live, and what the kept log says of that time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from online.monitor.hotset.curves import coverage_rows, decades
from online.monitor.hotset.nights import Span, live_spans, read_reports, realised
from online.monitor.hotset.page import PAGE
from online.monitor.rendering import Renderer
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kept import KeptLog
from online.monitor.sources import Sources
from online.monitor.windows import DEFAULT_RANGE, window_at
from schemas.history import Change
from schemas.hotset_report import HotSetReport, Used
from tests.support.hotset_reports import KNOWN, hotset_report, write_report
from tests.support.request_log import log_table, write_log

START = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)


def change(minutes: int, generation: str | None, before: str = "1.1") -> Change:
    at = (START + timedelta(minutes=minutes)).isoformat()
    line = {"at": at, "why": "activate", "from": before, "to": "1.9", "stable": "7", "generation": generation}
    return Change.model_validate(line)


def minutes(spans: list[Span]) -> list[tuple[float, float]]:
    return [tuple((end - START.timestamp()) / 60 for end in (span.start_s, span.end_s)) for span in spans]  # type: ignore[misc]


def test_a_generation_is_live_until_another_is_and_again_after_a_rollback() -> None:
    changes = [change(30, "a"), change(20, "b"), change(10, "a"), change(0, None, before="0.0")]
    found = live_spans(changes, START.timestamp() + 45 * 60)
    assert minutes(found["a"]) == [(10, 20), (30, 45)]
    assert minutes(found["b"]) == [(20, 30)]
    assert set(found) == {"a", "b"}
    assert live_spans([], START.timestamp()) == {}


def test_changes_that_leave_it_live_are_no_end() -> None:
    # A canary began at 20: something was written, but the same is live.
    changes = [change(20, "a"), change(10, "a", before="0.0")]
    found = live_spans([changes[0].model_copy(update={"why": "canary"}), changes[1]], START.timestamp() + 1800)
    assert minutes(found["a"]) == [(10, 30)]


def test_answers_of_whole_minutes_within_the_kept_log(tmp_path: Path) -> None:
    rows = [
        {
            "time": START + timedelta(minutes=minute, seconds=at),
            "source": source,
            "status": 200 if source else 503,
        }
        for minute in range(30)
        for at, source in enumerate(["precomputed"] * 3 + ["cached", "live", None])
    ]
    write_log(tmp_path, "delay", log_table(rows))
    kept = KeptLog(LogFolder(str(tmp_path), "delay"), None, 1, 256)
    start_s = int(START.timestamp())
    kept.refresh(start_s, start_s + 3600, start_s + 3600)
    # From 5 s into minute 10 until 20, and again 25 to 28: ten and three minutes, the first of them not whole.
    spans = [Span(start_s + 605, start_s + 1200), Span(start_s + 1500, start_s + 1680)]
    found = realised(kept.counts, spans, start_s)
    assert found is not None
    assert (found.seconds, found.answers) == (12 * 60, 12 * 5)
    assert (found.precomputed, found.cached) == (36, 12)
    assert found.precomputed_share == pytest.approx(0.6)
    assert found.hit_share == pytest.approx(0.8)
    later = realised(kept.counts, spans, start_s + 1500)
    assert later is not None
    assert later.answers == 3 * 5
    assert realised(kept.counts, spans, start_s + 4000) is None
    assert realised(kept.counts, [], start_s) is None
    kept.close()


def test_reports_newest_first_and_those_that_cannot_be_read_named(tmp_path: Path) -> None:
    assert read_reports(str(tmp_path), "delay").nights == ()
    for day in (26, 27, 28):
        as_of = datetime(2026, 11, day, 2, tzinfo=UTC)
        path = write_report(tmp_path, hotset_report(f"202611{day}T0200Z-1", as_of))
    path.write_bytes(b'{"format": 99}')
    found = read_reports(str(tmp_path), "delay")
    assert [one.generation for one in found.nights] == ["20261127T0200Z-1", "20261126T0200Z-1"]
    assert found.unreadable == ("20261128T0200Z-1",)


def test_the_curve_is_read_at_even_distances_of_a_logarithmic_axis() -> None:
    report = hotset_report("20261128T0200Z-1", START)
    rows = coverage_rows(report)
    assert decades(report) == 5
    assert len(rows) == 50
    shares = np.array([row[0] for row in rows])
    assert np.diff(np.log10(shares)) == pytest.approx(0.1)
    assert shares[-1] == pytest.approx(10**-0.05)
    for share, entities, traffic in rows[20:]:
        assert entities == pytest.approx(share * KNOWN)
        assert traffic == pytest.approx(np.log1p(900 * share) / np.log1p(900), abs=0.01)
    assert coverage_rows(None) == []


def test_a_night_of_which_little_is_known_is_shown(tmp_path: Path, sources: Sources) -> None:
    """No backtest, nothing precomputed, no request, no price, and a Redis that is not there."""
    report = hotset_report("20261128T0200Z-1", START, used=Used.DECLINED, expected_share=0.0, windows=0)
    point = {"entities": 0.0, "traffic": 0.0}
    nothing = {"entities": 0, "share_of_known": 0.0, "bytes": 0, "expected_requests": 0.0, "churn": None}
    document = report.model_dump() | {
        "peak": None,
        "coverage": [point],
        "chosen_point": point,
        "known_entities": 0,
    }
    document["chosen"] |= nothing
    document["saving"] |= {"replicas": None, "money_a_day": None, "currency": None}
    document["fit"] |= {"is_fitted": False, "why_not": "3 days of log", "season_days": None, "eviction": None}
    write_report(tmp_path, HotSetReport.model_validate(document))
    window = window_at(DEFAULT_RANGE, START.timestamp() + 3600)
    found = PAGE.build(sources, "delay", window)
    page = Renderer(("delay",)).page(PAGE, "delay", window, found)
    assert "nothing precomputed" in page
    assert "3 days of log: a backtest needs 4" in page
    assert "so when a generation was live is not known." in page
    assert "no profile, so replicas are not known" in page
    assert (found.facts["hit_rate"], found.facts["realised_share"]) == (None, None)
