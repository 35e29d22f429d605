"""Drift: whether the model is still asked what it was trained for, hits and the tail each by themselves.

For each model, `watch` compares the sampled answers of the seven days that ended at the last midnight (UTC) of
the run's data interval with the training baseline, and `tell` sends what it found: one alarm for all features and
outputs of a model whose rule fired, in the log and as a POST to `alert_url`. It is sent each day as long as it is
found. An alarm is a finding, not a failure: the task succeeds, and nothing is retried because of it. What may be
done about one is in `infra/docs/drift.md`; the histograms are on the site's page Quality.

**When**: daily at 05:00 UTC, when the night is usually over; by hand, also for a date, which is then the window's
end. The window follows from the data interval alone, so a cleared or late run looks at its own days again, and
replaces what it wrote.

**If it fails**: clients are not concerned. A file of the log that compaction moved meanwhile is found by the
retry. A model of which nothing is in service yet is refused.

**Settings**: as for `nightly_precompute`. The parameter `model` restricts a run to one model.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import CronTriggerTimetable, dag, task_group
from hotset_alert import tell
from hotset_operators import ProductCommand, ProductJob
from hotset_steps import DEFAULT_ARGS, as_of, models, optional_name

SCHEDULE = "0 5 * * *"
TIMEZONE = "UTC"
TO = "{{ as_of(dag_run)[:10] }}"
JOB = "{{ var.json.hotset.home }}/batch_scoring/drift/__main__.py"


class TellAlarms(ProductCommand):
    """Reads the report of the window, and tells of its alarms."""

    def execute(self, context):  # type: ignore[no-untyped-def]
        report = super().execute(context)
        if report["alarms"]:
            tell(_alarm(context["ti"], report))
        return {**report, "alarms": len(report["alarms"])}


def _alarm(ti, report) -> dict[str, object]:  # type: ignore[no-untyped-def]
    found = [f"{one['population']} {one['name']} ({', '.join(one['kinds'])})" for one in report["alarms"]]
    told = {
        "dag": ti.dag_id,
        "run": ti.run_id,
        "model": report["model"],
        "version": report["version"],
        "step": ti.task_id,
        "alarm": True,
        "from": report["window_begin"],
        "to": report["window_end"],
        "found": report["alarms"],
        "do": "look at the page Quality; retrain, or find what changed in the features",
        "log": ti.log_url,
    }
    named = f"model={told['model']} version={told['version']} {told['from']} to {told['to']}"
    return told | {"text": f"hotset drift alarm: {named}: {'; '.join(found)} | {told['do']} | log: {told['log']}"}


@dag(
    schedule=CronTriggerTimetable(SCHEDULE, timezone=TIMEZONE, interval=timedelta(days=1)),
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    params={"model": optional_name("this model only")},
    user_defined_macros={"as_of": as_of},
    doc_md=__doc__,
    tags=["hotset"],
)
def drift_watch() -> None:
    @task_group(prefix_group_id=False)
    def each_model(model, bundle, digest, first_bundle, first_digest):  # type: ignore[no-untyped-def]
        about = {"model": model}
        ProductJob(
            task_id="watch",
            application=JOB,
            application_args=["--model", model, "--to", TO],
            name="hotset-drift",
            about=about,
        ) >> TellAlarms(
            task_id="tell",
            module="batch_scoring.drift.report",
            command=[],
            arguments={"--model": model, "--to": TO},
            about=about,
            result=("version", "window_begin", "window_end", "alarms"),
        )

    each_model.expand_kwargs(models())


drift_watch()
