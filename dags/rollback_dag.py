"""Rollback: what was live before is live again, in one change of the routes document.

**When**: by hand, with the parameters `model` and `why`; optionally `to` (a version other than the one before) and
`from_generation` (do it only if that generation is in service).

`live` notes which generation is in service, and `rollback` leaves that one, so that a retry never goes back twice.
To roll forward again, run it once more. At a terminal: `python -m batch_scoring.releases rollback --model M`.

**If it fails**: nothing has changed, or all has; `python -m batch_scoring.releases show --model M` says which.

**Settings**: as for `nightly_precompute`.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import Param, dag
from hotset_operators import ProductCommand
from hotset_steps import DEFAULT_ARGS, NAME, optional_name

MODULE = "batch_scoring.releases"
GENERATION = r"^[0-9]{8}T[0-9]{4}Z-[1-9][0-9]{0,5}$"
ABOUT = {"model": "{{ params.model }}"}
LEAVING = (
    "{% if params.from_generation %}{{ params.from_generation }}"
    "{% else %}{{ (ti.xcom_pull(task_ids='live')['active'] or {}).generation or '' }}{% endif %}"
)


@dag(
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={**DEFAULT_ARGS, "retry_delay": timedelta(seconds=10), "execution_timeout": timedelta(minutes=5)},
    params={
        "model": Param(**NAME, description="its name"),
        "why": Param(type="string", minLength=1, maxLength=500, description="for the history"),
        "to": optional_name("version to go back to; default: what was live before"),
        "from_generation": Param(
            None, type=["null", "string"], pattern=GENERATION, description="only if this one is in service"
        ),
    },
    doc_md=__doc__,
    tags=["hotset"],
)
def rollback() -> None:
    live = ProductCommand(
        task_id="live",
        module=MODULE,
        command=["show", "--json", "--history=0"],
        arguments={"--model": "{{ params.model }}"},
        about=ABOUT,
        result=("active",),
    )
    live >> ProductCommand(
        task_id="rollback",
        module=MODULE,
        command=["rollback", "--yes"],
        arguments={
            "--model": "{{ params.model }}",
            "--to": "{{ params.to or '' }}",
            "--why": "{{ params.why }}",
            "--by": "{{ dag_run.triggering_user_name or 'airflow' }} by {{ dag.dag_id }}/{{ run_id }}",
            "--from": LEAVING,
        },
        about=ABOUT,
    )


rollback()
