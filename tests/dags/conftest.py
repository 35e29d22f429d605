"""Airflow for the tests: its own environment, a database and a folder of DAGs of their own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.airflow.environment import AIRFLOW_BIN, airflow_environment
from infra.airflow.night import migrate, quiet
from infra.local.settings import HOME, StackSettings
from tests.dags.dag_folder import DAGS, copy_dags


@dataclass(frozen=True)
class Airflow:
    """Runs programs of Airflow's environment: `airflow(...)` and `python(...)` give what they print."""

    env: dict[str, str]

    def airflow(self, *words: str) -> str:
        return self._run(str(AIRFLOW_BIN / "airflow"), *words)

    def python(self, *words: str) -> str:
        return self._run(str(AIRFLOW_BIN / "python"), *words)

    def _run(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.env, cwd=HOME, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def airflow() -> Iterator[Airflow]:
    """Airflow with the DAGs, and the nightly one on New York's time as well."""
    folder = Path(tempfile.mkdtemp(prefix="hotset-airflow-"))
    try:
        settings = StackSettings.on_free_ports(folder)
        env = airflow_environment(settings, [{"model": "delay", "bundle": "file:///bundles/delay"}])
        migrate(settings, env, quiet)
        dags = folder / "dags"
        copy_dags(dags)
        text = (
            (DAGS / "nightly_precompute_dag.py")
            .read_text(encoding="utf-8")
            .replace('TIMEZONE = "UTC"', 'TIMEZONE = "America/New_York"')
        )
        text = text.replace("def nightly_precompute(", "def new_york(").replace(
            "\nnightly_precompute()", "\nnew_york()"
        )
        (dags / "new_york_dag.py").write_text(text, encoding="utf-8")
        yield Airflow({**env, "AIRFLOW__CORE__DAGS_FOLDER": str(dags), "PYTHONWARNINGS": "ignore"})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _environment_is_there() -> None:
    assert os.access(AIRFLOW_BIN / "airflow", os.X_OK), "Airflow's environment is missing: make setup"
