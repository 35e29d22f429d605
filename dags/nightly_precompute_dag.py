"""Nightly precompute: features -> hot set -> scores -> a new generation in Redis, live when every check passed.

Each run makes, for each model, one generation, named after the end of its data interval and the count of runs of
that interval; nothing existing is overwritten, and clients see nothing of it before `activate`. For some nights
after a release it also rescores the version before, so that a rollback finds fresh answers.

**When**: daily at 02:00 UTC with the day before as data interval; by hand; or on an event of the asset
`hotset-night-wanted` (say, by the pipeline that fills the source tables). A run as of what: the end of its data
interval; by hand for a date, that date; with neither (by hand without a date, an asset event), the minute from
which it may run. `begin` refuses a time in the future. Only the end counts, so an interval of length zero does no
harm. A backfill of a past interval ends at `activate`, refused, where a newer generation is in service.

**If it fails**: clients go on getting the previous generation, whose age is on the site. Models and versions do
not wait for each other: where one fails, the others go live. Every step is idempotent and may be cleared and run
again; to begin anew, clear `begin`. A step that was refused fails at once, since a retry cannot help. A run that
begins later for the same model takes over its token: the earlier one is refused at `activate`.

**Settings**: the Airflow Variable `hotset`, JSON: `home` (where the product lies), `python` (its interpreter),
`models`, a list of `model`, `bundle` (URL of the bundle of its first night; later nights take the version in
service) and, optionally, `digest` (sha256 of that bundle's manifest); and, optionally, `alert_url`, which gets a
POST of JSON for each step that failed. The parameters of a run restrict it to one `model`, or give a `bundle` of
its own. Spark's own settings come from the connection `spark_default` and from `spark-defaults.conf`, those of the
jobs from the environment (`BATCH_*`).

**Tells others**: the asset `hotset-generation-activated` has an event for each generation that went live.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable, Param, dag
from hotset_steps import DEFAULT_ARGS, DIGEST, as_of, begin_each, optional_name, work_on

SCHEDULE = "0 2 * * *"
TIMEZONE = "UTC"


@dag(
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable(SCHEDULE, timezone=TIMEZONE, interval=timedelta(days=1)),
        assets=[Asset("hotset-night-wanted")],
    ),
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    params={
        "model": optional_name("this model only"),
        "bundle": Param(None, type=["null", "string"], description="URL of another bundle than that in service"),
        "digest": DIGEST,
    },
    user_defined_macros={"as_of": as_of},
    doc_md=__doc__,
    tags=["hotset"],
)
def nightly_precompute() -> None:
    work_on(begin_each(), "night")


nightly_precompute()
