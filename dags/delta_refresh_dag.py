"""Refresh between nights: entities whose features changed are scored again, into a delta.

A delta is a small generation on top of the one in service, which stays as it is; it has the same steps and checks
as a night's.

**When**: on an event of the asset `hotset-features-changed` (say, by the pipeline that fills the source tables),
by hand, and, where `SCHEDULE` below is set, such as `"0 8-22/2 * * *"`, by that cron as well. Airflow needs a
schedule when it reads the file, and should not read a Variable then, so that it stands here.

**If it fails**: clients go on getting what is in service. Every step may be cleared and run again. A delta whose
base was replaced meanwhile is refused at `activate`; so it leaves out a turn while a night or a release is
running.

**Settings**: as for `nightly_precompute`. The parameter `model` restricts a run to one model.
"""

from datetime import UTC, datetime

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, dag, task
from airflow.sdk.exceptions import AirflowSkipException
from hotset_steps import DEFAULT_ARGS, as_of, begin_each, optional_name, work_on

SCHEDULE: str | None = None
TIMEZONE = "UTC"
CHANGED = Asset("hotset-features-changed")
BEFORE_IT = ("nightly_precompute", "model_release")


@task
def has_turn(ti=None):  # type: ignore[no-untyped-def]
    """Skips the run while a whole generation is being made, which holds what a delta would."""
    for other in BEFORE_IT:
        if ti.get_dr_count(dag_id=other, states=["running"]):
            raise AirflowSkipException(f"{other} is running, and knows what changed")


@dag(
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable(SCHEDULE, timezone=TIMEZONE), assets=[CHANGED])
    if SCHEDULE
    else [CHANGED],
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    params={"model": optional_name("this model only")},
    user_defined_macros={"as_of": as_of},
    doc_md=__doc__,
    tags=["hotset"],
)
def delta_refresh() -> None:
    work_on(begin_each(delta=True, after=has_turn()), "refresh")


delta_refresh()
