"""The nightly DAG in real Airflow: what it is, what reading it loads, and as of what each kind of run runs."""

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.airflow.environment import AIRFLOW_BIN
from infra.local.settings import HOME
from tests.dags.conftest import DAG_FILE, Airflow

pytestmark = pytest.mark.airflow

STEPS = ["begin", "features", "select", "score", "publish", "verify", "gate", "activate", "retire"]


@pytest.fixture(scope="module")
def dag(airflow: Airflow) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(
        airflow.python("tests/dags/describe.py", str(DAG_FILE)).splitlines()[-1]
    )
    return described


@pytest.fixture(scope="module")
def runs(airflow: Airflow) -> dict[str, Any]:
    """What `begin` gets in runs of every kind."""
    argv = [AIRFLOW_BIN / "python", "tests/dags/render_runs.py"]
    done = subprocess.run(argv, env=airflow.env, cwd=HOME, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    rendered: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return rendered


def test_reading_the_dag_loads_neither_spark_nor_torch(dag: dict[str, Any]) -> None:
    loaded = set(dag["modules"])
    assert loaded & {"pyspark", "torch", "batch_scoring", "online", "pandas", "numpy"} == set()
    assert "schemas" in loaded


def test_steps_run_one_after_the_other(dag: dict[str, Any]) -> None:
    assert dag["order"] == STEPS
    assert [dag["edges"][step] for step in STEPS] == [[step] for step in STEPS[1:]] + [[]]


def test_only_steps_that_move_data_start_spark(dag: dict[str, Any]) -> None:
    spark = {step for step, kind in dag["types"].items() if kind == "SparkSubmitOperator"}
    assert spark == {"features", "select", "score", "publish"}


def test_one_run_at_a_time_documented_and_retried(dag: dict[str, Any]) -> None:
    assert dag["documented"]
    assert not dag["catchup"]
    assert dag["max_active_runs"] == 1
    assert min(dag["retries"].values()) >= 1


def test_the_jobs_it_names_exist() -> None:
    named = re.findall(r'"(batch_scoring/\S+\.py)"', DAG_FILE.read_text(encoding="utf-8"))
    assert len(named) == 4
    assert [job for job in named if not (HOME / job).exists()] == []


def test_airflow_imports_the_folder_without_errors(airflow: Airflow) -> None:
    assert "No data found" in airflow.airflow("dags", "list-import-errors")


def test_a_scheduled_run_is_as_of_the_end_of_its_interval(runs: dict[str, Any]) -> None:
    assert runs["scheduled"]["AS_OF"] == "2026-11-28T02:00:00Z"
    assert runs["scheduled"]["RUN_KEY"] == "scheduled"


def test_a_run_by_hand_for_a_date_is_as_of_that_date(runs: dict[str, Any]) -> None:
    assert runs["by_hand_dated"]["AS_OF"] == "2026-11-27T02:00:00Z"


def test_a_run_by_hand_without_a_date_is_as_of_now(runs: dict[str, Any]) -> None:
    as_of = datetime.fromisoformat(runs["by_hand"]["AS_OF"])
    assert timedelta(0) <= datetime.now(UTC) - as_of < timedelta(minutes=10)


def test_an_asset_event_is_as_of_the_minute_it_may_run(runs: dict[str, Any]) -> None:
    assert runs["asset"]["AS_OF"] == "2026-11-28T09:30:00Z"


def test_a_date_in_the_future_reaches_begin_which_refuses_it(runs: dict[str, Any]) -> None:
    assert runs["future"]["AS_OF"] == "2126-11-27T02:00:00Z"


def test_the_night_of_the_time_change_has_an_interval(runs: dict[str, Any]) -> None:
    assert runs["time_change"]["AS_OF"] == "2027-03-14T07:30:00Z"


def test_no_night_is_lost_or_run_twice_over_the_time_change(runs: dict[str, Any]) -> None:
    ends = [datetime.fromisoformat(end) for _, end in runs["nights"]]
    days = [(end - timedelta(hours=5)).date().isoformat() for end in ends]
    assert days == [f"2027-03-{day}" for day in (12, 13, 14, 15, 16, 17)]
    assert all(start < end for start, end in runs["nights"])


def test_a_run_overrides_model_and_bundle_and_then_not_the_digest_of_another(runs: dict[str, Any]) -> None:
    assert runs["scheduled"]["MODEL"] == "delay"
    assert runs["scheduled"]["DIGEST"] == "ab" * 32
    assert runs["no_digest"]["DIGEST"] == ""
    given = runs["conf"]
    assert (given["MODEL"], given["BUNDLE"], given["DIGEST"]) == ("other", "file:///elsewhere; rm -rf /", "")


def test_nothing_is_called_none(runs: dict[str, Any]) -> None:
    kinds = [env for name, env in runs.items() if name != "nights"]
    assert [env for env in kinds if "none" in json.dumps(env).lower()] == []
