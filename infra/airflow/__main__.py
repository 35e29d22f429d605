"""`python -m infra.airflow run|ui|exec`: one night, the real UI, or any command of Airflow, on this machine."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from infra.airflow.environment import AIRFLOW_BIN, NoJava, airflow_environment
from infra.airflow.night import NIGHT_MARK, NightFailed, migrate, remembered, run_night
from infra.local.ready import HttpProbe
from infra.local.settings import HOME, LOOPBACK, StackSettings
from infra.local.supervision import end_group, end_marked
from schemas.settings import BadSettings, load_settings

UI_READY_S = 180.0
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 the night failed or Airflow did not start, 2 wrong use or wrong settings."""
    arguments = _parser().parse_args(argv)
    # Stopped like Ctrl-C: what was started must not outlive this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        settings = load_settings(StackSettings)
        return _run(arguments, settings)
    except BadSettings as error:
        return _fail(f"settings: {error}", 2)
    except (NightFailed, NoJava) as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: argparse.Namespace, settings: StackSettings) -> int:
    if arguments.command == "run":
        seconds = run_night(
            settings,
            _models(arguments, settings),
            arguments.as_of,
            _say,
            fail_fast=not arguments.retry,
            parameters=_parameters(arguments),
        )
        _say(f"night done; steps took {sum(seconds.values()):.0f} s")
        return 0
    env = airflow_environment(settings, remembered(settings))
    migrate(settings, env, _say)
    if arguments.command == "ui":
        return _ui(settings, env)
    return subprocess.run([AIRFLOW_BIN / "airflow", *arguments.words], env=env, cwd=HOME, check=False).returncode


def _models(arguments: argparse.Namespace, settings: StackSettings) -> list[dict[str, str]]:
    """The models of the last night, and the one that is named now with its bundle."""
    known = {one["model"]: one for one in remembered(settings)}
    if arguments.bundle:
        if not arguments.model:
            raise BadSettings("--bundle needs --model")
        given = {"model": arguments.model, "bundle": arguments.bundle, "digest": arguments.digest}
        known[arguments.model] = {name: text for name, text in given.items() if text}
    if not known and "AIRFLOW_VAR_HOTSET" not in os.environ:
        raise BadSettings("--model and --bundle needed: no night of this state folder named them before")
    return list(known.values())


def _parameters(arguments: argparse.Namespace) -> dict[str, str]:
    given = {name: getattr(arguments, name) for name in ("model", "bundle", "digest")}
    return {name: text for name, text in given.items() if text}


def _ui(settings: StackSettings, env: Mapping[str, str]) -> int:
    """Runs all parts of Airflow until interrupted."""
    port = settings.port("airflow")
    log = settings.state / "log" / "airflow.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    _say(f"starting Airflow (its log: {log}) ...")
    mark = f"{NIGHT_MARK}=ui-{os.getpid()}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [AIRFLOW_BIN / "airflow", "standalone"],
            env={**env, **dict([mark.split("=", 1)])},
            cwd=HOME,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for_ui(process, HttpProbe(LOOPBACK, port, "/api/v2/monitor/health"))
            _say(f"Airflow: http://{LOOPBACK}:{port}/dags/nightly_precompute (no login; Ctrl-C ends it)")
            return process.wait()
        finally:
            end_group(process)
            end_marked(mark)


def _wait_for_ui(process: subprocess.Popen[bytes], probe: HttpProbe) -> None:
    began = said = time.monotonic()
    while not probe.is_ready():
        waited = time.monotonic() - began
        if process.poll() is not None or waited > UI_READY_S:
            raise NightFailed(f"Airflow did not come up in {waited:.0f} s; see its log")
        if time.monotonic() - said > 5:
            said = time.monotonic()
            _say(f"Airflow ... {waited:.0f} s")
        time.sleep(0.5)


def _moment(text: str) -> datetime:
    """A date or a moment; without a time zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no moment such as 2026-11-28T02:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.airflow", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the night once, by `airflow dags test`")
    run.add_argument("--as-of", "--date", type=_moment, help="end of the data interval, ISO 8601 (default: now)")
    run.add_argument("--model", help="this one only (default: all that had a night here)")
    run.add_argument("--bundle", help="URL of its bundle (default: what is in service)")
    run.add_argument("--digest", help="sha256 of that bundle's manifest")
    run.add_argument("--retry", action="store_true", help="retry a failed step as in production")
    commands.add_parser("ui", help="Airflow with its web interface, until interrupted")
    other = commands.add_parser("exec", help="any command of Airflow, such as: exec dags list")
    other.add_argument("words", nargs=argparse.REMAINDER, help="the command and its options")
    return parser


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this command's output


def _fail(text: str, status: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
