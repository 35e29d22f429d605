"""What the DAG files are, in real Airflow: their steps and order, and what reading them costs."""

import ast
import json
import sys
from typing import Any

import pytest

from infra.local.settings import HOME
from tests.dags.conftest import Airflow
from tests.dags.dag_folder import DAGS

pytestmark = pytest.mark.airflow

PREPARE = ["features", "select", "score"]
RELEASE = ["publish", "verify", "gate", "activate", "retire"]
# What looks at the request log, and makes nothing for clients.
WATCHING = {"drift_watch_dag", "request_log_upkeep_dag"}
# The group that is mapped over the runs, by DAG.
GROUPS = {"nightly_precompute_dag": "night", "delta_refresh_dag": "refresh", "model_release_dag": "version"}
OURS = {path.stem for path in DAGS.glob("*.py")}


@pytest.fixture(scope="module")
def read(airflow: Airflow) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(airflow.python("tests/dags/describe.py", str(DAGS)).splitlines()[-1])
    return document


@pytest.fixture(scope="module")
def dags(read: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = read["dags"]
    return described


def test_which_there_are(dags: dict[str, Any]) -> None:
    assert set(dags) == {*GROUPS, *WATCHING, "rollback_dag"}


def test_reading_the_dags_loads_neither_spark_nor_torch_nor_the_product(read: dict[str, Any]) -> None:
    loaded = set(read["modules"])
    assert loaded & {"pyspark", "torch", "batch_scoring", "online", "runtime", "infra", "pandas", "numpy"} == set()
    assert "schemas" in loaded


def test_dag_files_import_the_standard_library_airflow_and_names_only() -> None:
    for path in DAGS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in {*sys.stdlib_module_names, "airflow", *OURS} or name == "schemas.names", (path, name)


def test_each_is_read_in_less_than_a_second(dags: dict[str, Any]) -> None:
    assert {name: one["cpu_s"] for name, one in dags.items() if one["cpu_s"] >= 1.0} == {}


@pytest.mark.parametrize(("name", "group"), GROUPS.items())
def test_every_run_takes_all_steps_in_their_order(dags: dict[str, Any], name: str, group: str) -> None:
    edges = dags[name]["edges"]
    steps = [*(f"{group}.prepare.{step}" for step in PREPARE), *(f"{group}.release.{step}" for step in RELEASE)]
    assert [edges[step] for step in steps] == [[step] for step in steps[1:]] + [[]]
    assert group in dags[name]["mapped_groups"]
    assert {f"{group}.prepare", f"{group}.release"} <= set(dags[name]["groups"])
    assert edges["begin"] == ["has_begun", "runs"]
    # Airflow judges a run by its leaves: a model that did not begin must be one.
    assert edges["has_begun"] == []


def test_the_nightly_dag_and_the_delta_begin_each_model_by_itself(dags: dict[str, Any]) -> None:
    mapped = {name: "each_model" in one["mapped_groups"] for name, one in dags.items()}
    assert mapped == {
        "nightly_precompute_dag": True,
        "delta_refresh_dag": True,
        "model_release_dag": False,
        "rollback_dag": False,
        "drift_watch_dag": True,
        "request_log_upkeep_dag": False,
    }


def test_a_release_loads_while_it_scores_and_publishes_after_both(dags: dict[str, Any]) -> None:
    edges = dags["model_release_dag"]["edges"]
    assert edges["version.load"] == ["version.release.publish"]
    before = [step for step, after in edges.items() if "version.release.publish" in after]
    assert sorted(before) == ["runs", "version.load", "version.prepare.score"]


@pytest.mark.parametrize("name", GROUPS)
def test_only_steps_that_move_data_start_spark(dags: dict[str, Any], name: str) -> None:
    spark = {step.rpartition(".")[2] for step, kind in dags[name]["types"].items() if kind == "ProductJob"}
    assert spark == {"features", "select", "score", "publish"}


def test_the_jobs_they_name_exist(dags: dict[str, Any]) -> None:
    named = {
        job.removeprefix("{{ var.json.hotset.home }}/") for one in dags.values() for job in one["jobs"].values()
    }
    assert len(named) == 5
    assert [job for job in named if not (HOME / job).is_file()] == []


def test_one_run_at_a_time_documented_retried_and_told(dags: dict[str, Any]) -> None:
    for name, one in dags.items():
        assert (name, one["documented"], one["catchup"], one["max_active_runs"]) == (name, True, False, 1)
        assert min(one["retries"].values()) >= 1
        assert {tuple(told) for told in one["told"].values()} == {("alert",)}


def test_an_activation_is_told_by_an_asset_and_nothing_else_is(dags: dict[str, Any]) -> None:
    outlets = {name: one["outlets"] for name, one in dags.items()}
    told = ["hotset-generation-activated"]
    assert outlets == {
        **{name: {f"{group}.release.activate": told} for name, group in GROUPS.items()},
        **{name: {} for name in (*WATCHING, "rollback_dag")},
    }


def test_what_starts_each(dags: dict[str, Any]) -> None:
    nightly = dags["nightly_precompute_dag"]["schedule"]
    assert "hotset-night-wanted" in nightly
    assert "0 2 * * *" in nightly
    assert "hotset-features-changed" in dags["delta_refresh_dag"]["schedule"]
    assert "0 5 * * *" in dags["drift_watch_dag"]["schedule"]
    assert "0 12 * * *" in dags["request_log_upkeep_dag"]["schedule"]
    assert [dags[name]["schedule"] for name in ("model_release_dag", "rollback_dag")] == ["None", "None"]
