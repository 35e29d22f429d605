"""Ages of precomputed answers over time, against rows whose ages are known."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from online.monitor.overview.ages import Age, ages_chart, ages_table, read_ages
from online.monitor.overview.changes import changes_within
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kept import KeptLog
from online.monitor.windows import RANGES, Window, window_at
from tests.support.request_log import log_table, utc, write_log

NOON = utc("2026-11-29 12:00")
NOW = utc("2026-11-29 12:58:30")
HOUR_MS = 3_600_000


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[dict[str, KeptLog]]:
    found = {name: KeptLog(LogFolder(str(tmp_path), name), None, 1, 256) for name in ("delay", "fare")}
    yield found
    for log in found.values():
        log.close()


def read(logs: dict[str, KeptLog], model: str = "delay") -> tuple[dict[str, list[Age | None]], Window]:
    window = window_at(RANGES[1], NOW.timestamp())
    for log in logs.values():
        log.refresh(window.start_s, window.end_s, window.now_s)
    found = read_ages({name: log.counts for name, log in logs.items()}, window, model)
    return {name: list(steps) for name, steps in found.items()}, window


def step_of(window: Window) -> int:
    return (int(NOON.timestamp()) - window.start_s) // window.range.step_s


def test_the_median_and_the_oldest_of_precomputed_answers_alone(logs: dict[str, KeptLog], tmp_path: Path) -> None:
    hits = [{"time": NOON, "age_ms": age * HOUR_MS} for age in [6] * 60 + [9] * 38 + [30] * 2]
    others = [
        {"time": NOON, "source": "cached", "age_ms": 99 * HOUR_MS},
        {"time": NOON, "source": "live", "age_ms": None},
        {"time": NOON, "age_ms": -5},
    ]
    write_log(tmp_path, "delay", log_table([*hits, *others] * 3))
    found, window = read(logs)
    [age] = [one for one in found["delay"] if one is not None]
    assert found["delay"][step_of(window)] == age
    assert (age.median_h, age.oldest_h) == (pytest.approx(6, rel=0.006), pytest.approx(30, rel=0.006))
    assert found["fare"] == [None] * window.steps


def test_each_model_is_a_line_and_two_columns_the_chosen_first(logs: dict[str, KeptLog], tmp_path: Path) -> None:
    write_log(tmp_path, "delay", log_table([{"time": NOON, "age_ms": 2 * HOUR_MS}]))
    write_log(tmp_path, "fare", log_table([{"time": NOON + timedelta(minutes=20), "age_ms": 500}]))
    found, window = read(logs, "fare")
    changes = changes_within([], window)
    table = ages_table(found, window, changes)
    assert [column.key for column in table.columns] == [
        "from", "age_fare", "oldest_fare", "age_delay", "oldest_delay",
    ]  # fmt: skip
    at_noon, later = table.rows[step_of(window)], table.rows[step_of(window) + 1]
    assert at_noon[1:3] == [None, None]
    assert at_noon[3] == pytest.approx(2, rel=0.006)
    assert later[1] == pytest.approx(1 / 3600, rel=0.01)  # at least a second
    chart = ages_chart(found, window, changes)
    assert [(layer.label, layer.key) for layer in chart.layers] == [("fare", "age-fare"), ("delay", "age-delay")]
    assert all(layer.path for layer in chart.layers)


def test_nothing_precomputed_is_no_line(logs: dict[str, KeptLog], tmp_path: Path) -> None:
    write_log(tmp_path, "delay", log_table([{"time": NOON, "source": "live"}]))
    found, window = read(logs)
    changes = changes_within([], window)
    assert ages_chart(found, window, changes).is_empty
    assert ages_table(found, window, changes).rows == []
