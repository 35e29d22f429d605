"""The report of a window, as whoever sends alarms gets it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from batch_scoring.drift.report import main
from schemas.drift import TAIL
from tests.support.watched import sample, write_drift

END = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BATCH_DATA_URL", str(tmp_path))
    return tmp_path


def test_prints_the_window_that_was_asked_for_on_one_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_drift(data, "delay", END, {TAIL: sample(500, 1, has_gates=False)})
    write_drift(data, "delay", END + timedelta(days=1), {TAIL: sample(500, 1)})
    assert main(["--model", "delay", "--to", "2026-11-28"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert (report["window_begin"], report["window_end"]) == ("2026-11-21T00:00:00Z", "2026-11-28T00:00:00Z")
    assert [(one["population"], one["name"], one["kinds"]) for one in report["alarms"]] == [
        ("tail", "gate", ["missing"])
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--model", "delay", "--to", "2026-11-20"], "delay was not watched from 2026-11-13"),
        (["--model", "../delay"], "is not a model name"),
        (["--model", "delay", "--to", "soon"], "neither a date nor a time"),
    ],
)
def test_refuses_in_words(words: list[str], why: str, caplog: pytest.LogCaptureFixture) -> None:
    assert main(words) == 2
    assert why in caplog.text
