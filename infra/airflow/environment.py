"""The environment in which Airflow's commands run here.

Airflow has an environment of its own (`.venv-airflow`): its pins and its Spark provider collide with the
product's. It parses the DAGs, and starts each step as a process of the product's Python or of spark-submit.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.local.java import find_java_home
from infra.local.programs import process_environment
from infra.local.secret_files import secret_of
from infra.local.settings import HOME, LOOPBACK, StackSettings
from infra.local.spark import jvm_options

AIRFLOW_BIN = HOME / ".venv-airflow" / "bin"
PRODUCT_PYTHON = HOME / ".venv" / "bin" / "python"


class NoJava(Exception):
    """No Java that Spark 4.3 runs on."""


def airflow_environment(
    settings: StackSettings, models: Sequence[Mapping[str, str]], caller: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Everything that Airflow and the steps it starts need to know.

    Args:
        models: for each, `model`, `bundle` and optionally `digest`: those of the Airflow Variable `hotset`.

    Raises:
        NoJava: none of version 17 or 21 was found.
    """
    java_home = find_java_home(caller)
    if java_home is None:
        raise NoJava("Spark needs Java 17 or 21, and none was found: `make setup` says what to do")
    home = settings.state / "airflow"
    variable = {"home": str(HOME), "python": str(PRODUCT_PYTHON), "models": [dict(model) for model in models]}
    batch = {
        name: text for name, text in process_environment(settings, caller).items() if name.startswith("BATCH_")
    }
    return {
        **caller,
        **batch,
        **_config(settings, home, caller),
        **_spark(java_home, caller),
        "AIRFLOW_VAR_HOTSET": caller.get("AIRFLOW_VAR_HOTSET", json.dumps(variable)),
    }


def _config(settings: StackSettings, home: Path, caller: Mapping[str, str]) -> dict[str, str]:
    url = f"http://{LOOPBACK}:{settings.port('airflow')}"
    chosen = {
        "core__dags_folder": caller.get("AIRFLOW__CORE__DAGS_FOLDER", str(HOME / "dags")),
        "core__load_examples": "False",
        "core__default_timezone": "utc",
        "core__simple_auth_manager_all_admins": "True",
        "database__sql_alchemy_conn": f"sqlite:///{home}/airflow.db",
        "logging__base_log_folder": str(home / "logs"),
        "api__host": LOOPBACK,
        "api__port": str(settings.port("airflow")),
        "api__base_url": url,
        "core__execution_api_server_url": f"{url}/execution/",
        # Signs the tokens between Airflow's own processes.
        "api_auth__jwt_secret": secret_of(home / "jwt-secret"),
        "usage_data_collection__enabled": "False",
    }
    return {"AIRFLOW_HOME": str(home)} | {f"AIRFLOW__{name.upper()}": value for name, value in chosen.items()}


def _spark(java_home: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Where spark-submit is, which Python and Java it takes, and the connection that names the cluster."""
    spark_home = next((HOME / ".venv" / "lib").glob("python3.*/site-packages/pyspark"))
    path = [spark_home / "bin", AIRFLOW_BIN, java_home / "bin"]
    # As JSON: Airflow does not understand the URI form `spark://local[2]` and falls back to YARN.
    connection = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": caller.get("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection)),
        "SPARK_HOME": str(spark_home),
        "SPARK_SUBMIT_OPTS": caller.get("SPARK_SUBMIT_OPTS", jvm_options()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": str(PRODUCT_PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(PRODUCT_PYTHON),
        "JAVA_HOME": str(java_home),
        "PYTHONPATH": str(HOME),
        "PATH": os.pathsep.join([*map(str, path), caller.get("PATH", "")]),
    }
