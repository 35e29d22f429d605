"""Steps of a run: done once, done again where that no longer holds, and what a refusal leaves."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batch_scoring.job import REFUSED, run_check
from batch_scoring.runs import Refused, Role, Run
from batch_scoring.settings import BatchSettings


def test_a_check_that_is_refused_later_takes_back_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run(
        model="delay",
        version="1",
        bundle_url=str(tmp_path),
        bundle_digest="0" * 64,
        as_of=datetime(2026, 11, 28, 2, tzinfo=UTC),
        generation="20261128T0200Z-1",
        ordinal=1,
        started_at_ms=1,
        run_key="night",
        token=1,
        role=Role.STABLE,
        url=str(tmp_path / "run.json"),
    )
    run.save()

    def passes(run: Run, settings: BatchSettings) -> dict[str, object]:
        return {"is_warm": True}

    def refuses(run: Run, settings: BatchSettings) -> dict[str, object]:
        raise Refused("no replica is warm")

    assert run_check("gate", passes, run.url) == 0
    assert run.need_report("gate")["is_warm"] is True
    assert run_check("gate", refuses, run.url) == REFUSED
    with pytest.raises(Refused, match=r"gate of .* has not finished"):
        run.need_report("gate")
    assert run_check("gate", passes, run.url) == 0
    assert run.need_report("gate")["is_warm"] is True


@pytest.mark.parametrize(
    ("url", "words"),
    [("gs://bucket/runs/run.json", r"gs:// .*gcsfs"), ("nowhere://bucket/run.json", r"nowhere:// .*not known")],
)
def test_a_run_at_an_address_that_no_client_is_there_for_is_refused_in_words(
    url: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_check("verify", lambda run, settings: {}, url) == REFUSED
    (refusal,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert re.search(f"^refused: .*{words}", refusal)
