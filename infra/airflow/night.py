"""Runs a DAG once by `airflow dags test`, telling how far it is.

The whole of Airflow's output goes to `STATE/log/night.log`; the caller hears one line for each step.
"""

import json
import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from infra.airflow.environment import AIRFLOW_BIN, airflow_environment
from infra.local.settings import HOME, StackSettings
from infra.local.supervision import end_group, end_marked

# In the environment of everything that one night starts.
NIGHT_MARK = "LOCAL_NIGHT"
DAG_ID = "nightly_precompute"
SAY_EVERY_S = 10.0
TAIL_LINES = 40
_STARTED = re.compile(r"\[DAG TEST\] starting task_id=(\S+) map_index=(-?\d+)")
_ENDED = re.compile(r"\[DAG TEST\] end task task_id=(\S+) map_index=(-?\d+)")
_STATE = re.compile(r"Task instance state updated .*new_state=(\w+)")
_WELL = ("success", "skipped")
# What Airflow says of itself around the output of a step.
_NOISE = re.compile(
    r"\[(airflow\.(?!task\.hooks|task\.operators\.hotset)|task\]|py\.warnings|alembic)"
    r"|^\s|^Traceback|No tasks to run"
)
_SOURCE = r"\s+\[airflow\.task\.(hooks|operators)"

Say = Callable[[str], None]


def quiet(line: str) -> None:
    """A `say` for callers that show nothing."""


class NightFailed(Exception):
    """A step failed; the message names it and holds the end of what it wrote."""


@dataclass
class Night:
    """How far one run is, read from Airflow's output.

    `seconds`: what each finished step took, with its retries. `failures`: the end of what a step wrote whose last
    try failed.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    step: str | None = None
    began: float = 0.0
    lines: list[str] = field(default_factory=list)

    def take(self, line: str, now: float) -> str | None:
        """Takes one line of output; returns what there is to tell, if anything."""
        if started := _STARTED.search(line):
            self.step, self.began, self.lines = _named(started), now, []
            self.failures.pop(self.step, None)
            return f"{self.step} ..."
        if (state := _STATE.search(line)) and state[1] not in _WELL and self.step:
            self.failures[self.step] = self.lines
        if (ended := _ENDED.search(line)) and self.step:
            step, self.step = _named(ended), None
            took_s = now - self.began
            self.seconds[step] = self.seconds.get(step, 0.0) + took_s
            return f"{step} {'failed' if step in self.failures else 'done'} after {took_s:.1f} s"
        if not _NOISE.search(line):
            self.lines.append(_words(line))
        return None


def _named(found: re.Match[str]) -> str:
    """A step without its groups, and with its place among the runs where it is not the first."""
    name, place = found[1].rpartition(".")[2], int(found[2])
    return f"{name}[{place}]" if place > 0 else name


def run_night(
    settings: StackSettings,
    models: Sequence[Mapping[str, str]],
    as_of: datetime | None = None,
    say: Say = print,
    environment: Mapping[str, str] = os.environ,
    fail_fast: bool = True,
    parameters: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Runs the nightly DAG once, as `run_dag` does.

    Args:
        models: for each, `model`, `bundle` and optionally `digest`; kept for later runs of this state folder.
        as_of: end of the data interval, with time zone; default: now.
        parameters: of the run: `model`, `bundle`, `digest`.
    """
    remember(settings, models)
    return run_dag(settings, DAG_ID, models, as_of, parameters, say, environment, fail_fast)


def run_dag(
    settings: StackSettings,
    dag_id: str,
    models: Sequence[Mapping[str, str]],
    as_of: datetime | None = None,
    parameters: Mapping[str, str] | None = None,
    say: Say = print,
    environment: Mapping[str, str] = os.environ,
    fail_fast: bool = True,
) -> dict[str, float]:
    """Runs a DAG once, by Airflow, with real tasks.

    Args:
        models: those of the Variable.
        parameters: of the run.
        fail_fast: end at the first failed try, instead of after Airflow's retries and all other steps.

    Returns:
        Seconds of each step.

    Raises:
        NightFailed: a step failed, or Airflow did not come to run any.
    """
    env = airflow_environment(settings, models, environment)
    migrate(settings, env, say)
    moment = (as_of or datetime.now(UTC)).astimezone(UTC).isoformat()
    argv = [str(AIRFLOW_BIN / "airflow"), "dags", "test", dag_id, moment]
    if parameters:
        argv += ["--conf", json.dumps(dict(parameters))]
    log = settings.state / "log" / "night.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"{dag_id} as of {moment}: starting Airflow (its log: {log})")
    return _follow(argv, env, log, say, fail_fast)


def migrate(settings: StackSettings, env: Mapping[str, str], say: Say) -> None:
    """Brings Airflow's database to the installed version; does nothing where it is there already."""
    stamp = settings.state / "airflow" / "migrated"
    version = next(
        (HOME / ".venv-airflow" / "lib").glob("python3.*/site-packages/apache_airflow_core-*.dist-info")
    ).name
    if stamp.exists() and stamp.read_text(encoding="utf-8") == version:
        return
    say("preparing Airflow's database ...")
    argv = [str(AIRFLOW_BIN / "airflow"), "db", "migrate"]
    done = subprocess.run(argv, env=dict(env), cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NightFailed(f"airflow db migrate failed:\n{_tail((done.stdout + done.stderr).splitlines())}")
    stamp.write_text(version, encoding="utf-8")


def remember(settings: StackSettings, models: Sequence[Mapping[str, str]]) -> None:
    """Keeps what a night ran with, for the UI and for later runs of this state folder."""
    path = _night_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"models": [dict(model) for model in models]}, indent=1), encoding="utf-8")


def remembered(settings: StackSettings) -> list[dict[str, str]]:
    """The models that the last night ran with; empty before the first."""
    path = _night_file(settings)
    return list(json.loads(path.read_text(encoding="utf-8")).get("models", [])) if path.exists() else []


def _night_file(settings: StackSettings) -> Path:
    return settings.state / "airflow" / "night.json"


def _follow(argv: list[str], env: Mapping[str, str], log: Path, say: Say, fail_fast: bool) -> dict[str, float]:
    night = Night(began=time.monotonic())
    mark = f"{NIGHT_MARK}={os.getpid()}-{time.monotonic_ns()}"
    process = subprocess.Popen(
        argv,
        env={**env, **dict([mark.split("=", 1)])},
        cwd=HOME,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    taken: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, log, taken), name="night-log")
    reader.start()
    try:
        for line in _lines(taken):
            told = night.take(line, time.monotonic()) if line is not None else _still(night)
            if told:
                say(told)
            if night.failures and night.step is None and fail_fast:
                break
        else:
            process.wait()
    finally:
        # Airflow gives each step a session of its own, so that killing its process group is not enough.
        end_group(process)
        end_marked(mark)
        reader.join()
    if night.failures or process.returncode:
        what = f"step {', '.join(night.failures)}" if night.failures else "airflow dags test"
        said = next(iter(night.failures.values()), night.lines)
        raise NightFailed(f"{what} failed; all of its log is in {log}. Its end:\n{_tail(said)}")
    return night.seconds


def _read(process: subprocess.Popen[str], log: Path, taken: "queue.Queue[str | None]") -> None:
    """Copies the process's output to `log` and, line by line, to `taken`; None at its end."""
    assert process.stdout is not None
    with log.open("w", encoding="utf-8") as copy, process.stdout as lines:
        for line in lines:
            copy.write(line)
            copy.flush()
            taken.put(line.rstrip("\n"))
    taken.put(None)


def _lines(taken: "queue.Queue[str | None]") -> Iterator[str | None]:
    """Lines as they come; None where there is nothing to tell for a while."""
    said = time.monotonic()
    while True:
        try:
            line = taken.get(timeout=max(0.0, said + SAY_EVERY_S - time.monotonic()))
        except queue.Empty:
            said = time.monotonic()
            yield None
            continue
        if line is None:
            return
        if _STARTED.search(line) or _ENDED.search(line):
            said = time.monotonic()
        yield line


def _still(night: Night) -> str:
    return f"{night.step or 'Airflow'} ... {time.monotonic() - night.began:.0f} s"


def _words(line: str) -> str:
    """A line of a step's output without Airflow's time stamp and source."""
    return re.sub(rf"^\S+Z \[\w+ *\] |{_SOURCE}\S* .*$|{_SOURCE}\S*\].*$", "", line)


def _tail(lines: Sequence[str]) -> str:
    return "\n".join(lines[-TAIL_LINES:])
