"""Runs and changes as the batch side leaves them, without doing a night: for readers of both."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis

from schemas.keys import history_key
from schemas.names import run_path
from schemas.run_folders import report_file


def write_run(
    root: Path,
    model: str,
    generation: str,
    began: datetime,
    version: str = "7",
    needed_bytes: int | None = 2_500_000,
    **finished_after_s: float,
) -> None:
    """A run's folder. Args: finished_after_s: by step, seconds from its beginning to the end of the step."""
    folder = root / run_path(model, generation)
    folder.mkdir(parents=True)
    run = {
        "version": version,
        "generation": generation,
        "started_at_ms": int(began.timestamp() * 1000),
        "as_of": began.isoformat(),
    }
    (folder / "run.json").write_text(json.dumps(run))
    for step, after_s in finished_after_s.items():
        report: dict[str, object] = {"step": step, "finished_at": (began + timedelta(seconds=after_s)).isoformat()}
        if step == "publish":
            report["needed_bytes"] = needed_bytes
        (folder / report_file(step)).write_text(json.dumps(report))


def record_change(
    client: redis.Redis, model: str, at: datetime, version: str, generation: str | None, why: str, number: int
) -> None:
    """The newest line of the history; changes are numbered from 1."""
    line = {
        "at": at.astimezone(UTC).isoformat(),
        "why": why,
        "by": "airflow",
        "from": f"1.{number - 1}" if number > 1 else "0.0",
        "to": f"1.{number}",
        "stable": version,
        "generation": generation,
    }
    client.lpush(history_key(model), json.dumps(line))
