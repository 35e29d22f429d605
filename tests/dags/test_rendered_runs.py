"""As of what each kind of run runs, and what it calls the product with, in real Airflow."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.airflow.environment import AIRFLOW_BIN
from infra.local.settings import HOME
from tests.dags.conftest import Airflow

pytestmark = pytest.mark.airflow


@pytest.fixture(scope="module")
def runs(airflow: Airflow) -> dict[str, Any]:
    """What a step gets in runs of every kind: `begin`, and in a rollback that itself."""
    argv = [AIRFLOW_BIN / "python", "tests/dags/render_runs.py"]
    done = subprocess.run(argv, env=airflow.env, cwd=HOME, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    rendered: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return rendered


@pytest.fixture(scope="module")
def chosen(runs: dict[str, Any]) -> dict[str, Any]:
    """What `begin` is called for, by what a run was given."""
    found: dict[str, Any] = runs["chosen"]
    return found


def test_airflow_imports_the_folder_without_errors(runs: dict[str, Any]) -> None:
    assert "No data found" in runs["import_errors"]


def test_a_scheduled_run_is_as_of_the_end_of_its_interval(runs: dict[str, Any]) -> None:
    assert runs["scheduled"]["--as-of"] == "2026-11-28T02:00:00Z"


def test_runs_of_two_dags_never_have_the_same_key(runs: dict[str, Any]) -> None:
    assert runs["by_hand"]["--run-key"] == "nightly_precompute/by-hand"
    assert runs["delta"]["--run-key"] == "delta_refresh/by-hand"


def test_a_run_by_hand_for_a_date_is_as_of_that_date(runs: dict[str, Any]) -> None:
    assert runs["by_hand_dated"]["--as-of"] == "2026-11-27T02:00:00Z"


@pytest.mark.parametrize("kind", ["by_hand", "delta", "release"])
def test_a_run_by_hand_without_a_date_is_as_of_now(runs: dict[str, Any], kind: str) -> None:
    as_of = datetime.fromisoformat(runs[kind]["--as-of"])
    assert timedelta(0) <= datetime.now(UTC) - as_of < timedelta(minutes=10)


def test_an_asset_event_is_as_of_the_minute_it_may_run(runs: dict[str, Any]) -> None:
    assert runs["asset"]["--as-of"] == "2026-11-28T09:30:00Z"


def test_a_date_in_the_future_reaches_begin_which_refuses_it(runs: dict[str, Any]) -> None:
    assert runs["future"]["--as-of"] == "2126-11-27T02:00:00Z"


def test_the_night_of_the_time_change_has_an_interval(runs: dict[str, Any]) -> None:
    assert runs["time_change"]["--as-of"] == "2027-03-14T07:30:00Z"


def test_no_night_is_lost_or_run_twice_over_the_time_change(runs: dict[str, Any]) -> None:
    ends = [datetime.fromisoformat(end) for _, end in runs["nights"]]
    days = [(end - timedelta(hours=5)).date().isoformat() for end in ends]
    assert days == [f"2027-03-{day}" for day in (12, 13, 14, 15, 16, 17)]
    assert all(start < end for start, end in runs["nights"])


def test_a_night_is_for_all_models_each_with_the_bundle_of_its_first(chosen: dict[str, Any]) -> None:
    nothing = {"bundle": "", "digest": ""}
    delay = {"model": "delay", "first_bundle": "file:///bundles/delay", "first_digest": "ab" * 32, **nothing}
    churn = {"model": "churn", "first_bundle": "file:///bundles/churn", "first_digest": "", **nothing}
    assert chosen["all"] == [delay, churn]
    assert chosen["one"] == [churn]


def test_a_run_with_a_bundle_takes_neither_the_first_nor_its_digest(chosen: dict[str, Any]) -> None:
    (only,) = chosen["bundle"]
    assert only == {"model": "delay", "bundle": "/b/9", "digest": "", "first_bundle": "", "first_digest": ""}


def test_a_model_that_the_variable_does_not_name_is_for_begin_to_judge(chosen: dict[str, Any]) -> None:
    (only,) = chosen["unknown"]
    assert (only["model"], only["bundle"], only["first_bundle"]) == ("other", "", "")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("digest_alone", "no bundle that it is the digest of"),
        ("bundle_of_whom", "say for which of delay, churn"),
        ("no_models", "names no models"),
    ],
)
def test_what_does_not_say_what_to_begin_is_refused(chosen: dict[str, Any], given: str, words: str) -> None:
    assert words in chosen[given]


def test_a_parameter_is_read_neither_as_shell_nor_as_template(runs: dict[str, Any]) -> None:
    release = runs["release"]
    assert (release["--model"], release["--digest"]) == ("other", "")
    assert release["--bundle"] == "file:///elsewhere; rm -rf / {{ 7 * 7 }}"


def test_a_rollback_says_from_where_to_where_and_who_wants_it(runs: dict[str, Any]) -> None:
    given = runs["rollback"]
    assert (given["--model"], given["--to"], given["--why"]) == ("delay", "7", "wrong")
    assert given["--from"] == "20261128T0200Z-1"
    assert given["--by"].endswith(" by rollback/given")


def test_nothing_is_called_none(runs: dict[str, Any]) -> None:
    kinds = [given for name, given in runs.items() if isinstance(given, dict) and name != "chosen"]
    assert [given for given in kinds if "none" in json.dumps(given).lower()] == []
