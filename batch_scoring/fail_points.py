"""Named points at which a drill ends or holds a job, as a lost machine or a slow one would.

`BATCH_FAIL_POINT=POINT:kill:FOLDER` kills the process that comes there; `POINT:hold:FOLDER` lets it wait there
until there is a file `FOLDER/POINT.go`. Either happens once: the file `FOLDER/POINT` tells that it has, and to
which process. Unset, which is the default, a point costs a comparison.
"""

import os
import signal
import time
from pathlib import Path

POINTS = (
    "publish.begun",  # nothing is written yet
    "publish.half",  # in a Spark worker: the first buckets of a part are sent
    "publish.written",  # all parts are, and the manifest does not say so yet
    "verify.begun",
    "verify.half",  # one part is compared
    "verify.compared",  # all are, and the manifest does not say so yet
    "activate.begun",
    "activate.checked",  # the new document is made, and not set yet
    "activate.changed",  # clients see it, and the step has not reported
    "retire.begun",
    "retire.out",  # out of the document, and still in Redis
    "retire.half",  # the first one is deleted
)
_LOOK_S = 0.05


def reach(point: str, armed: str) -> None:
    """Does what a drill asks for at this point, if anything. `armed`: the setting `fail_point`."""
    if not armed.startswith(f"{point}:"):
        return
    _, action, folder = armed.split(":", 2)
    mark = Path(folder) / point
    try:
        with mark.open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    while not mark.with_name(f"{point}.go").exists():
        time.sleep(_LOOK_S)


def check(text: str) -> str:
    """Returns what a drill was given as. Raises ValueError where it names no point or no action."""
    point, _, rest = text.partition(":")
    action, _, folder = rest.partition(":")
    if text and (point not in POINTS or action not in ("kill", "hold") or not folder):
        raise ValueError(f"fail_point must be POINT:kill:FOLDER or POINT:hold:FOLDER, POINT one of {POINTS}")
    return text
