"""Nightly precompute: features -> hot set -> scores -> a new generation in Redis, live when every check passed.

Each run makes one generation, named after the end of its data interval and the count of runs of that interval;
nothing existing is overwritten, and clients see nothing of it before `activate`.

**When**: daily at 02:00 UTC with the day before as data interval; by hand; or on an event of the asset
`hotset-night-wanted` (say, by the pipeline that fills the source tables). A run as of what: the end of its data
interval; by hand for a date, that date; with neither (by hand without a date, an asset event), the minute from
which it may run.
`begin` refuses a time in the future. Only the end counts, so an interval of length zero does no harm.

**If it fails**: clients go on getting the previous generation, whose age is on the site. Every step is
idempotent and may be cleared and run again; to begin anew, clear `begin`.

**Settings**: the Airflow Variable `hotset`, JSON: `home` (where the product lies), `python` (its interpreter),
`model`, `bundle` (URL of the model bundle) and, optionally, `digest` (sha256 of its manifest). The parameters of
a run override model, bundle and digest. Spark's own settings come from the connection `spark_default` and from
`spark-defaults.conf`, those of the jobs from the environment (`BATCH_*`).
"""

import json
from datetime import UTC, datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, Param, dag
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from schemas.names import NAME_PATTERN

SCHEDULE = "0 2 * * *"
TIMEZONE = "UTC"

RUN = "{{ ti.xcom_pull(task_ids='begin')['run'] }}"
TOKEN = "{{ ti.xcom_pull(task_ids='begin')['token'] }}"
REFUSED = 2  # exit status of a command that a retry cannot help


def as_of(dag_run) -> str:  # type: ignore[no-untyped-def] # Airflow's type differs between parsing and running
    """The moment up to which this run knows the world, to the minute, as ISO 8601 in UTC."""
    moment = dag_run.data_interval_end or dag_run.run_after
    if dag_run.run_type == "manual" and dag_run.logical_date and moment == dag_run.run_after:
        # `airflow dags trigger --logical-date` gives an interval that ends now, whatever the date is (3.3.2).
        moment = dag_run.logical_date
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00Z")


class ProductCommand(BashOperator):
    """A command of the product's own Python. What it refuses fails at once; other failures are retried."""

    def __init__(self, *, command: str, env: dict[str, str], **kwargs) -> None:  # type: ignore[no-untyped-def]
        super().__init__(
            bash_command=f'exec "$PRODUCT_PYTHON" -m batch_scoring.publishing {command}',
            # Values reach the shell as environment only: a parameter of a run is never read as shell text.
            env={"PRODUCT_PYTHON": "{{ var.json.hotset.python }}", **env},
            append_env=True,
            cwd="{{ var.json.hotset.home }}",
            skip_on_exit_code=REFUSED,
            **kwargs,
        )

    def execute(self, context):  # type: ignore[no-untyped-def]
        try:
            return super().execute(context)
        except AirflowSkipException:
            raise AirflowFailException("refused: its reason is in the lines above") from None


def begin() -> ProductCommand:
    return ProductCommand(
        task_id="begin",
        command='begin --model "$MODEL" --bundle "$BUNDLE" --as-of "$AS_OF" --run-key "$RUN_KEY"'
        ' ${DIGEST:+--digest "$DIGEST"}',
        env={
            "MODEL": "{{ params.model or var.json.hotset.model }}",
            "BUNDLE": "{{ params.bundle or var.json.hotset.bundle }}",
            "DIGEST": "{{ params.digest or ('' if params.bundle else var.json.hotset.get('digest') or '') }}",
            "AS_OF": "{{ as_of(dag_run) }}",
            "RUN_KEY": "{{ run_id }}",
        },
        output_processor=json.loads,
    )


def spark(task_id: str, job: str) -> SparkSubmitOperator:
    """A Spark step. `job`: its file, from the product's home."""
    return SparkSubmitOperator(
        task_id=task_id,
        application="{{ var.json.hotset.home }}/" + job,
        application_args=["--run", RUN],
        name=f"hotset-{task_id}",
    )


def plain(task_id: str) -> ProductCommand:
    """A step that moves no data, so that it need not pay for the start of Spark."""
    return ProductCommand(
        task_id=task_id, command=f'{task_id} --run "$RUN" --token "$TOKEN"', env={"RUN": RUN, "TOKEN": TOKEN}
    )


@dag(
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SCHEDULE, timezone=TIMEZONE, interval=timedelta(days=1)),
        assets=[Asset("hotset-night-wanted")],
    ),
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2), "execution_timeout": timedelta(hours=3)},
    params={
        "model": Param(
            None, type=["null", "string"], pattern=rf"^{NAME_PATTERN}$", description="instead of the Variable's"
        ),
        "bundle": Param(None, type=["null", "string"], description="URL of another bundle"),
        "digest": Param(
            None, type=["null", "string"], pattern="^[0-9a-f]{64}$", description="sha256 of its manifest"
        ),
    },
    user_defined_macros={"as_of": as_of},
    doc_md=__doc__,
    tags=["hotset"],
)
def nightly_precompute() -> None:
    (
        begin()
        >> spark("features", "batch_scoring/features/__main__.py")
        >> spark("select", "batch_scoring/hotset/__main__.py")
        >> spark("score", "batch_scoring/scoring/__main__.py")
        >> spark("publish", "batch_scoring/publishing/publish_job.py")
        >> plain("verify")
        >> plain("gate")
        >> plain("activate")
        >> plain("retire")
    )


nightly_precompute()
