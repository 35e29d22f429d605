"""Run by Airflow's Python: makes real runs of the DAGs, renders a step of each by `tasks render`, prints JSON.

One process for all of them, since Airflow takes seconds to start.
"""

import ast
import contextlib
import io
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from airflow.cli.cli_parser import get_parser
from airflow.cli.commands.task_command import task_render
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.cli import get_bagged_dag
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType, DagRunType

DAG = "nightly_precompute"


def cli(*words: str) -> str:
    """Runs a command of Airflow in this process; returns what it printed."""
    out = io.StringIO()
    arguments = get_parser().parse_args(list(words))
    with contextlib.redirect_stdout(out):
        arguments.func(arguments)
    return out.getvalue()


def rendered(dag: str, run_id: str, step: str = "begin") -> dict[str, str]:
    """The arguments that the step would call the product with in that run, less those of its model.

    What a mapped group gives its steps is known only when they run; `chosen` shows that.
    """
    read = get_bagged_dag(None, dag)
    task = read.get_task(step)
    for field in ("arguments", "about"):
        setattr(task, field, {name: text for name, text in getattr(task, field).items() if isinstance(text, str)})
    words = ["tasks", "render", dag, step, run_id]
    words += ["--map-index", "0"] if task.get_closest_mapped_task_group() else []
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        task_render(get_parser().parse_args(words), dag=read)
    return ast.literal_eval(re.search(r"property: arguments\n.*\n(\{.*\})", out.getvalue())[1])


def triggered(dag: str, run_id: str, *words: str, step: str = "begin") -> dict[str, str]:
    cli("dags", "trigger", dag, "--run-id", run_id, "--output", "json", *words)
    return rendered(dag, run_id, step)


def by_asset_event() -> dict[str, str]:
    """A run as the scheduler makes it for an asset event: no logical date, no interval."""
    SerializedDagModel.get_dag(DAG).create_dagrun(
        run_id="asset",
        run_type=DagRunType.ASSET_TRIGGERED,
        run_after=datetime(2026, 11, 28, 9, 30, 15, tzinfo=UTC),
        triggered_by=DagRunTriggeredByType.ASSET,
        state=DagRunState.QUEUED,
    )
    return rendered(DAG, "asset")


def scheduled(dag: str) -> dict[str, str]:
    """A run as the scheduler makes it, with the timetable's own interval."""
    end = datetime(2026, 11, 28, 2, tzinfo=UTC)
    SerializedDagModel.get_dag(dag).create_dagrun(
        run_id="scheduled",
        run_type=DagRunType.SCHEDULED,
        logical_date=end,
        data_interval=(end - timedelta(days=1), end),
        run_after=end,
        triggered_by=DagRunTriggeredByType.TIMETABLE,
        state=DagRunState.QUEUED,
    )
    return rendered(dag, "scheduled")


def nights(dag: str, first: datetime, count: int) -> list[list[str]]:
    """The intervals that the scheduler gives the runs from `first` on."""
    from airflow.timetables.base import DataInterval, TimeRestriction

    timetable = SerializedDagModel.get_dag(dag).timetable
    restriction, last, found = (
        TimeRestriction(earliest=None, latest=None, catchup=True),
        DataInterval(first, first),
        [],
    )
    for _ in range(count):
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        last = info.data_interval
        found.append([last.start.isoformat(), last.end.isoformat()])
    return found


HOTSET = {
    "models": [
        {"model": "delay", "bundle": "file:///bundles/delay", "digest": "ab" * 32},
        {"model": "churn", "bundle": "file:///bundles/churn"},
    ]
}


def chosen(**given: str) -> list[dict[str, str]] | str:
    """What `begin` is called for, of two models and with these parameters; or the words of the refusal."""
    return chosen_of(HOTSET, given)


def chosen_of(hotset: Mapping[str, object], given: Mapping[str, str]) -> list[dict[str, str]] | str:
    get_bagged_dag(None, DAG)  # puts the folder of the DAGs on the path
    from hotset_steps import chosen_models

    parameters = {"model": None, "bundle": None, "digest": None, **given}
    try:
        return chosen_models(hotset, parameters)
    except AirflowFailException as refusal:
        return str(refusal)


def main() -> None:
    cli("dags", "reserialize")
    bundle = "file:///elsewhere; rm -rf / {{ 7 * 7 }}"
    release = json.dumps({"model": "other", "bundle": bundle})
    back = json.dumps({"model": "delay", "why": "wrong", "to": "7", "from_generation": "20261128T0200Z-1"})
    print(  # noqa: T201 - its output
        json.dumps(
            {
                "import_errors": cli("dags", "list-import-errors"),
                "scheduled": scheduled(DAG),
                "by_hand": triggered(DAG, "by-hand"),
                "by_hand_dated": triggered(DAG, "dated", "--logical-date", "2026-11-27T02:00:00+00:00"),
                "future": triggered(DAG, "future", "--logical-date", "2126-11-27T02:00:00+00:00"),
                "asset": by_asset_event(),
                "time_change": triggered("new_york", "change", "--logical-date", "2027-03-14T07:30:00+00:00"),
                "delta": triggered("delta_refresh", "by-hand"),
                "release": triggered("model_release", "given", "--conf", release),
                "rollback": triggered("rollback", "given", "--conf", back, step="rollback"),
                "nights": nights("new_york", datetime(2027, 3, 11, 7, tzinfo=UTC), 6),
                "chosen": {
                    "all": chosen(),
                    "one": chosen(model="churn"),
                    "bundle": chosen(model="delay", bundle="/b/9"),
                    "digest_alone": chosen(model="delay", digest="cd" * 32),
                    "bundle_of_whom": chosen(bundle="/b/9"),
                    "unknown": chosen(model="other"),
                    "no_models": chosen_of({"home": "/"}, {}),
                },
            }
        ),
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
