"""What a failed step or a finding tells, and whom."""

import json
import logging
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowFailException

TIMEOUT_S = 5.0
_REASON_CHARS = 500
_LOG = logging.getLogger("airflow.task")  # what goes there is in the step's own log


def alert(context) -> None:  # type: ignore[no-untyped-def] # as Airflow calls it
    """Says in one line what failed and what to do, and posts it to the Variable's `alert_url` where one is set."""
    tell(_told(context))


def tell(told: Mapping[str, object]) -> None:
    """Logs the `text`, and posts all of it. Never fails: it is of no matter for what became of the step."""
    _LOG.error("%s", told["text"])
    try:
        _post(told)
    except (OSError, HTTPException, ValueError) as error:
        _LOG.warning("alert_url could not be told: %s", error)


def _told(context) -> dict[str, object]:  # type: ignore[no-untyped-def]
    ti, error = context["ti"], context.get("exception")
    is_refused = isinstance(error, AirflowFailException)
    about = _about(ti.task)
    told = {
        "dag": ti.dag_id,
        "run": ti.run_id,
        "model": about.get("model") or "-",
        "generation": about.get("generation") or "-",
        "step": ti.task_id if ti.map_index in (None, -1) else f"{ti.task_id}[{ti.map_index}]",
        "refused": is_refused,
        "reason": " ".join(str(error or "its process ended").removeprefix("refused: ").split())[-_REASON_CHARS:],
        "do": "a retry cannot help: remove the cause, then clear this step"
        if is_refused
        else "read its log, then clear this step to go on from it",
        "log": ti.log_url,
    }
    words = "refused" if is_refused else "failed"
    named = " ".join(f"{name}={told[name]}" for name in ("dag", "run", "model", "generation", "step"))
    text = f"hotset step {words}: {named}: {told['reason']} | clients keep the generation in service; {told['do']}"
    return told | {"text": f"{text} | log: {told['log']}"}


def _about(task) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """What the step worked on; nothing where Airflow has not resolved it, since the worker died."""
    about = getattr(task, "about", None)
    known = about.items() if isinstance(about, dict) else ()
    return {name: text for name, text in known if isinstance(text, str) and "{{" not in text}


def _post(told: Mapping[str, object]) -> None:
    url = Variable.get("hotset", deserialize_json=True).get("alert_url")
    if not url:
        return
    if not str(url).startswith(("http://", "https://")):
        raise ValueError("alert_url of the Variable hotset is no http(s) address")
    body = json.dumps(told).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S):
        pass
