"""Run by Airflow's Python: makes real runs of the DAG, renders `begin` for each by `tasks render`, prints JSON.

One process for all of them, since Airflow takes seconds to start.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta

from airflow.cli.cli_parser import get_parser
from airflow.models.serialized_dag import SerializedDagModel
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


def begin_environment(dag: str, run_id: str) -> dict[str, str]:
    """What `begin` would get in its environment in that run."""
    shown = cli("tasks", "render", dag, "begin", run_id)
    return ast.literal_eval(re.search(r"property: env\n.*\n(\{.*\})", shown)[1])


def triggered(dag: str, run_id: str, *words: str) -> dict[str, str]:
    cli("dags", "trigger", dag, "--run-id", run_id, "--output", "json", *words)
    return begin_environment(dag, run_id)


def by_asset_event() -> dict[str, str]:
    """A run as the scheduler makes it for an asset event: no logical date, no interval."""
    SerializedDagModel.get_dag(DAG).create_dagrun(
        run_id="asset",
        run_type=DagRunType.ASSET_TRIGGERED,
        run_after=datetime(2026, 11, 28, 9, 30, 15, tzinfo=UTC),
        triggered_by=DagRunTriggeredByType.ASSET,
        state=DagRunState.QUEUED,
    )
    return begin_environment(DAG, "asset")


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
    return begin_environment(dag, "scheduled")


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


def without_digest() -> dict[str, str]:
    """The Variable with only what it must hold."""
    whole = os.environ["AIRFLOW_VAR_HOTSET"]
    try:
        os.environ["AIRFLOW_VAR_HOTSET"] = json.dumps(
            {k: v for k, v in json.loads(whole).items() if k != "digest"}
        )
        return triggered(DAG, "no-digest")
    finally:
        os.environ["AIRFLOW_VAR_HOTSET"] = whole


def main() -> None:
    cli("dags", "reserialize")
    conf = json.dumps({"model": "other", "bundle": "file:///elsewhere; rm -rf /"})
    print(  # noqa: T201 - its output
        json.dumps(
            {
                "scheduled": scheduled(DAG),
                "by_hand": triggered(DAG, "by-hand"),
                "by_hand_dated": triggered(DAG, "dated", "--logical-date", "2026-11-27T02:00:00+00:00"),
                "future": triggered(DAG, "future", "--logical-date", "2126-11-27T02:00:00+00:00"),
                "asset": by_asset_event(),
                "time_change": triggered("new_york", "change", "--logical-date", "2027-03-14T07:30:00+00:00"),
                "conf": triggered(DAG, "conf", "--conf", conf),
                "no_digest": without_digest(),
                "nights": nights("new_york", datetime(2027, 3, 11, 7, tzinfo=UTC), 6),
            }
        ),
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
