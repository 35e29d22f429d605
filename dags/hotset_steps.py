"""What the DAGs of this folder are made of: what to begin, the runs, and the steps of each, in their order.

No DAG itself. Imports the standard library, Airflow and `schemas.names` only, so that reading a DAG stays cheap.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, Param, Variable, task, task_group
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from hotset_alert import alert
from hotset_operators import ProductCommand, ProductJob

from schemas.names import NAME_PATTERN

ACTIVATED = Asset("hotset-generation-activated")
RETRY_DELAY = timedelta(minutes=2)
DEFAULT_ARGS = {
    "retries": 2,
    "retry_delay": RETRY_DELAY,
    "execution_timeout": timedelta(hours=3),
    "on_failure_callback": alert,
}
NAME = {"type": "string", "pattern": rf"^{NAME_PATTERN}$"}
DIGEST = Param(None, type=["null", "string"], pattern="^[0-9a-f]{64}$", description="sha256 of its manifest")


def optional_name(description: str) -> Param:
    """A parameter that may be left out."""
    return Param(None, type=["null", "string"], pattern=NAME["pattern"], description=description)


def as_of(dag_run) -> str:  # type: ignore[no-untyped-def] # Airflow's type differs between parsing and running
    """The moment up to which this run knows the world, to the minute, as ISO 8601 in UTC."""
    moment = dag_run.data_interval_end or dag_run.run_after
    if dag_run.run_type == "manual" and dag_run.logical_date and moment == dag_run.run_after:
        # `airflow dags trigger --logical-date` gives an interval that ends now, whatever the date is (3.3.2).
        moment = dag_run.logical_date
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def chosen_models(hotset: Mapping[str, object], params: Mapping[str, object]) -> list[dict[str, str]]:
    """What to call `begin` with, for each model: those of the Variable, or what the run's parameters say.

    Raises:
        AirflowFailException: the two do not say which model, or which bundle.
    """
    known = {str(one["model"]): one for one in hotset.get("models", [])}  # type: ignore[attr-defined]
    given = {name: str(params.get(name) or "") for name in ("model", "bundle", "digest")}
    if given["digest"] and not given["bundle"]:
        raise AirflowFailException("refused: a digest is given, but no bundle that it is the digest of")
    names = [given["model"]] if given["model"] else list(known)
    if not names:
        raise AirflowFailException("refused: the Variable hotset names no models")
    if given["bundle"] and len(names) > 1:
        raise AirflowFailException(f"refused: a bundle is given; say for which of {', '.join(names)} by `model`")
    chosen = []
    for name in names:
        own = known.get(name, {})
        first = {"first_bundle": str(own.get("bundle") or ""), "first_digest": str(own.get("digest") or "")}
        # With a bundle of its own, a run has no use for the one to begin with.
        first = dict.fromkeys(first, "") if given["bundle"] else first
        chosen.append({"model": name, "bundle": given["bundle"], "digest": given["digest"], **first})
    return chosen


def flattened(begun: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """One entry for each run of each model that has begun."""
    return [
        {
            "run": one["run"],
            "token": str(one["token"]),
            "about": {"model": each["model"], "generation": one["generation"], "role": one["role"]},
        }
        for each in begun
        for one in each["runs"]  # type: ignore[attr-defined]
    ]


@task
def models(params=None):  # type: ignore[no-untyped-def]
    """What to begin, for each model."""
    return chosen_models(Variable.get("hotset", deserialize_json=True), params)


# Of several models, those that have begun go on whatever became of the others.
@task(trigger_rule="all_done")
def runs(ti=None):  # type: ignore[no-untyped-def]
    """The runs of all models that have begun."""
    # Asked for as a list of tasks, since a single result of a single task would come without its list.
    found = flattened(each for each in ti.xcom_pull(task_ids=["begin"]) if each)
    if not found:
        raise AirflowSkipException("no model has begun a run")
    return found


def begin(model, arguments, *words):  # type: ignore[no-untyped-def]
    """Fixes what a run works on. The same Airflow run finds the same run again, under a new token."""
    begun = ProductCommand(
        task_id="begin",
        command=["begin", *words],
        arguments={
            "--model": model,
            "--as-of": "{{ as_of(dag_run) }}",
            # Another DAG may have a run of the same name.
            "--run-key": "{{ dag.dag_id }}/{{ run_id }}",
            **arguments,
        },
        about={"model": model},
        result=("runs",),
    )
    # A leaf of its own: Airflow judges a run by its leaves, and those of other models may all be well.
    begun >> EmptyOperator(task_id="has_begun")
    return begun


def begin_each(*, delta: bool = False, after=None):  # type: ignore[no-untyped-def]
    """`begin` for each model. Where one does not begin, the others go on, and the run fails in the end."""

    @task_group(prefix_group_id=False)
    def each_model(model, bundle, digest, first_bundle, first_digest):  # type: ignore[no-untyped-def]
        given = {
            "--bundle": bundle,
            "--digest": digest,
            "--first-bundle": first_bundle,
            "--first-digest": first_digest,
        }
        return begin(model, {}, "--delta") if delta else begin(model, given)

    chosen = models()
    if after is not None:
        after >> chosen
    return each_model.expand_kwargs(chosen)


def spark(task_id: str, job: str, run: str, about: dict[str, str]) -> ProductJob:
    """A step that moves data. `job`: its file, from the product's home."""
    return ProductJob(
        task_id=task_id,
        application="{{ var.json.hotset.home }}/" + job,
        application_args=["--run", run],
        name=f"hotset-{task_id}",
        about=about,
    )


def plain(task_id: str, run: str, token: str, about: dict[str, str], **kwargs) -> ProductCommand:  # type: ignore[no-untyped-def]
    """A step that moves no data, so that it need not pay for the start of Spark."""
    given = {"--run": run, "--token": token}
    return ProductCommand(task_id=task_id, command=[task_id], arguments=given, about=about, **kwargs)


def work_on(begun, group_id: str, *, loads: bool = False) -> None:  # type: ignore[no-untyped-def]
    """All steps from features to retire, for each run by itself.

    Args:
        begun: the task `begin`, of one model or of each.
        loads: whether the live tier loads the run's version, while it is scored.
    """

    @task_group(group_id=group_id)
    def each_run(run, token, about):  # type: ignore[no-untyped-def]
        @task_group
        def prepare() -> None:
            (
                spark("features", "batch_scoring/features/__main__.py", run, about)
                >> spark("select", "batch_scoring/hotset/__main__.py", run, about)
                >> spark("score", "batch_scoring/scoring/__main__.py", run, about)
            )

        @task_group
        def release() -> None:
            (
                spark("publish", "batch_scoring/publishing/publish_job.py", run, about)
                >> plain("verify", run, token, about)
                >> plain("gate", run, token, about)
                >> plain("activate", run, token, about, outlets=[ACTIVATED])
                >> plain("retire", run, token, about)
            )

        released = release()
        prepare() >> released
        if loads:
            plain("load", run, "", about) >> released

    found = runs()
    begun >> found
    each_run.expand_kwargs(found)
