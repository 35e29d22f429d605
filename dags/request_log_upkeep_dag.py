"""Care of the request log: the many files of closed hours become few, and days that are old enough are deleted.

`compact` merges the files of every hour that ended an hour ago or earlier, of all models that have a log, then
`retention` deletes the days that lie more than `RETENTION_DAYS` back. Both find what there is to do by looking at
the log: a run that was left out costs nothing but more files until the next.

**Never beside a reader of the batch side**: whoever listed an hour before it is compacted finds files gone. So the
run waits until no run of the DAGs in `READERS` is going on, and takes its turn at noon (UTC), far from the night.
Should a night begin while it is compacting, that night's step reads again by its retry.

**When**: daily at 12:00 UTC; by hand. `compact` needs a data root that is a local folder and refuses others: for
an object store switch this DAG off, and let the store's own rules delete old days.

**If it fails**: no answer and no row is lost. Both steps may be cleared and run again.

**Settings**: as for `nightly_precompute`; the data root is `BATCH_DATA_URL`, as for the jobs. The choice of hot
entities looks 28 days back, short windows of drift four weeks: keep more than that.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import CronTriggerTimetable, dag, task
from airflow.sdk.exceptions import AirflowException
from hotset_operators import ProductCommand
from hotset_steps import DEFAULT_ARGS

SCHEDULE = "0 12 * * *"
TIMEZONE = "UTC"
RETENTION_DAYS = "90"
READERS = ("nightly_precompute", "delta_refresh", "model_release", "drift_watch")
MODULE = "batch_scoring.requestlog"


# Twelve hours of tries: after those the next run is as good.
@task(retries=72, retry_delay=timedelta(minutes=10))
def has_turn(ti=None):  # type: ignore[no-untyped-def]
    """Succeeds when nobody reads the log."""
    busy = [other for other in READERS if ti.get_dr_count(dag_id=other, states=["running"])]
    if busy:
        raise AirflowException(f"{', '.join(busy)} may be reading the log: this waits")


@dag(
    schedule=CronTriggerTimetable(SCHEDULE, timezone=TIMEZONE, interval=timedelta(days=1)),
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["hotset"],
)
def request_log_upkeep() -> None:
    compact = ProductCommand(task_id="compact", module=MODULE, command=["compact"], arguments={})
    retention = ProductCommand(
        task_id="retention",
        module=MODULE,
        command=["retention", "--delete"],
        arguments={"--days": RETENTION_DAYS},
    )
    has_turn() >> compact >> retention


request_log_upkeep()
