"""What Prometheus gets from the site: of the newest drift run and of compared hits; NaN where there is none."""

from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path

import pytest

from online.monitor.metrics import SiteMetrics
from online.monitor.sources import Sources
from schemas.drift import read_rows
from tests.support.scraped import Scraped
from tests.support.watched import compared_row, sample, write_compared, write_drift


def scrape(sources: Sources) -> Scraped:
    return Scraped(SiteMetrics(sources).text().decode())


def midnight() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def test_without_results_there_is_nothing_to_alarm(sources: Sources) -> None:
    found = scrape(sources)
    for population in ("hits", "tail"):
        assert isnan(found.total("hotset_drift_worst_psi", model="delay", population=population))
        assert found.total("hotset_drift_findings", model="delay", population=population) == 0
    assert isnan(found.total("hotset_drift_age_seconds", model="delay"))
    assert found.total("hotset_parity_compared", model="delay") == 0
    assert isnan(found.total("hotset_parity_share", model="delay", kind="equal"))


def test_the_newest_window_is_told(sources: Sources, tmp_path: Path) -> None:
    calm = {"hits": sample(50, 1), "tail": sample(2_000, 2)}
    write_drift(tmp_path, "delay", midnight() - timedelta(days=1), calm)
    assert scrape(sources).total("hotset_drift_findings", model="delay", level="alarm") == 0
    shifted = {"hits": sample(50, 4), "tail": sample(2_000, 3, shift=600.0, has_gates=False)}
    report = write_drift(tmp_path, "delay", midnight(), shifted)
    found = scrape(sources)
    of_tail = {"model": "delay", "population": "tail"}
    assert found.total("hotset_drift_findings", **of_tail, level="alarm") == len(report.alarms) == 2
    assert found.total("hotset_drift_findings", model="delay", population="hits", level="too_few_rows") == 4
    psis = [
        row.psi for row in read_rows(str(tmp_path), report) if row.population == "tail" and row.psi is not None
    ]
    assert found.total("hotset_drift_worst_psi", **of_tail) == pytest.approx(max(psis))
    assert 0 <= found.total("hotset_drift_age_seconds", model="delay") < 60


def test_shares_are_of_the_hits_compared_in_the_last_day(sources: Sources, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    recent = [compared_row(now - timedelta(minutes=1), number) for number in range(9)]
    write_compared(tmp_path, "delay", [*recent, compared_row(recent[0]["time"], 9, kind="wrong_model")])
    write_compared(tmp_path, "delay", [compared_row(now - timedelta(days=2), 1, kind="numeric_over")])
    found = scrape(sources)
    shares = {
        kind: found.total("hotset_parity_share", model="delay", kind=kind)
        for kind in ("equal", "wrong_model", "numeric_over")
    }
    assert shares == {"equal": 0.9, "wrong_model": 0.1, "numeric_over": 0.0}
    assert found.total("hotset_parity_compared", model="delay") == 10
