"""A new version of a model: loaded and warmed on the live tier, precomputed, checked, and only then given traffic.

**When**: by hand, with the parameters `model` and `bundle` (URL of the new bundle), optionally `version` (then a
bundle of another version is refused at once) and `digest` (sha256 of the bundle's manifest).

`load` has every replica load and warm the version while Spark computes its features and scores. `gate` says
whether it earned its activation: parity with the live tier, a warm replica, room in memory, capacity of the tail.
Until `activate`, the version in service answers; after it, that version stays loaded and is rescored for some
nights.

**If it fails**: nothing has changed for clients. A step that was refused says why; clear it when its cause is
gone.

**To go back**: the DAG `rollback`.

**Settings**: as for `nightly_precompute`.
"""

from datetime import UTC, datetime

from airflow.sdk import Param, dag
from hotset_steps import DEFAULT_ARGS, DIGEST, NAME, as_of, begin, optional_name, work_on


@dag(
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    params={
        "model": Param(**NAME, description="its name"),
        "bundle": Param(type="string", minLength=1, description="URL of the new bundle"),
        "version": optional_name("the version that the bundle must be of"),
        "digest": DIGEST,
    },
    user_defined_macros={"as_of": as_of},
    doc_md=__doc__,
    tags=["hotset"],
)
def model_release() -> None:
    given = {
        "--bundle": "{{ params.bundle }}",
        "--digest": "{{ params.digest or '' }}",
        "--version": "{{ params.version or '' }}",
    }
    work_on(begin("{{ params.model }}", given), "version", loads=True)


model_release()
