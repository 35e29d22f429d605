"""One local stack as an object: what `python -m infra.local`, the demo and the tests start and stop."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xmlrpc.client import Fault

from infra.local.programs import Program, admin_token, default_programs, process_environment, python_path
from infra.local.secret_files import secret_of
from infra.local.settings import HOME, StackSettings
from infra.local.supervision import MARK, Supervisor, already, port_is_taken

Say = Callable[[str], None]
POLL_S = 0.1
TAIL_LINES = 25
# A process that was started this often without becoming ready will not come up by itself.
MAX_STARTS = 3
SAY_EVERY_S = 2.0


class StackError(Exception):
    """A process did not become ready; the message names it and holds the end of its log."""


def quiet(line: str) -> None:
    """A `say` for callers that show nothing."""


class LocalStack:
    """Valkey, inference node, API and site under one supervisor, in one state folder.

    Use as `with LocalStack(settings) as stack: stack.start(["valkey"])` to have it stopped at the end, or
    without `with` to leave it running. Safe to start twice; a process whose settings changed is restarted.

    Args:
        environment: settings of the processes; default: `process_environment(settings)`.
        programs: other processes than the default ones.
        say: takes each line of progress.
    """

    def __init__(
        self,
        settings: StackSettings,
        environment: Mapping[str, str] | None = None,
        programs: Sequence[Program] | None = None,
        say: Say = quiet,
    ) -> None:
        self.settings = settings
        env = process_environment(settings) if environment is None else environment
        chosen = default_programs(settings, env) if programs is None else programs
        self.programs = {program.name: program for program in chosen}
        self._supervisor = Supervisor(settings.state)
        self._say = say

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, names: Iterable[str] | None = None) -> None:
        """Starts the named processes (default: all) and returns when each is ready.

        Raises:
            StackError: one did not become ready; the rest are left as they are.
            KeyError: no such process.
        """
        chosen = [self.programs[name] for name in (self.programs if names is None else names)]
        (self.settings.state / "valkey").mkdir(parents=True, exist_ok=True)
        secret_of(admin_token(self.settings))
        changed = {program.name for program in chosen if self._write_spec(program)}
        self._supervisor.write_config(self.programs.values())
        self._supervisor.start_daemon()
        for program in chosen:
            if program.name in changed:
                self.stop_one(program.name)
            self._begin(program)
        for program in chosen:
            self._wait_until_ready(program)

    def stop(self) -> None:
        """Stops every process of the stack and its supervisor, also after the supervisor has crashed."""
        self._supervisor.stop_daemon()

    def restart(self, name: str) -> None:
        """Stops one process (SIGTERM, then as long as it may drain) and starts it again, until ready."""
        self.stop_one(name)
        self._begin(self.programs[name])
        self._wait_until_ready(self.programs[name])

    def stop_one(self, name: str) -> None:
        """Stops one process and leaves it stopped."""
        self._call("stopProcess", name, ("NOT_RUNNING",))

    def wait_until_ready(self, name: str) -> None:
        """For a process that supervisor is restarting. Raises StackError."""
        self._wait_until_ready(self.programs[name])

    def pid(self, name: str) -> int | None:
        """Process id, or None while it does not run."""
        info = self._info(name)
        return info["pid"] or None if info else None

    def states(self) -> dict[str, str]:
        """Each process: `ready`, or supervisor's word for its state, such as STARTING, BACKOFF, STOPPED."""
        found = {}
        for name, program in self.programs.items():
            info = self._info(name)
            word = info["statename"] if info else "STOPPED"
            found[name] = "ready" if info and info["pid"] and program.probe.is_ready() else word
        return found

    def log_path(self, name: str) -> Path:
        return self.settings.state / "log" / f"{name}.log"

    def log_tail(self, name: str, lines: int = TAIL_LINES) -> str:
        """The last lines that a process wrote."""
        path = self.log_path(name)
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _write_spec(self, program: Program) -> bool:
        """Writes what `launch.py` runs; True where that differs from what was there."""
        env = {**python_path(), **program.env, MARK: str(self.settings.state)}
        text = json.dumps({"argv": program.argv, "env": env, "cwd": str(HOME)}, indent=1)
        path = self.settings.state / "run" / f"{program.name}.json"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return True

    def _begin(self, program: Program) -> None:
        info = self._info(program.name)
        if not (info and info["pid"]) and port_is_taken(program.probe.port):
            raise StackError(f"{program.name}: port {program.probe.port} is taken by another program")
        self._call("startProcess", program.name, ("ALREADY_STARTED",))

    def _call(self, method: str, name: str, fine: tuple[str, ...]) -> None:
        """`startProcess` returns at once, `stopProcess` when the process is gone."""
        with self._supervisor.rpc() as calls:
            try:
                getattr(calls, method)(name, method == "stopProcess")
            except Fault as fault:
                if not already(fault, *fine):
                    raise StackError(f"{name}: {fault.faultString}") from None

    def _info(self, name: str) -> Mapping[str, Any] | None:
        try:
            with self._supervisor.rpc() as calls:
                info: Mapping[str, Any] = calls.getProcessInfo(name)
                return info
        except (OSError, Fault):
            return None

    def _wait_until_ready(self, program: Program) -> None:
        began = said = time.monotonic()
        starts: set[int] = set()
        while True:
            info = self._info(program.name)
            word = info["statename"] if info else "without a supervisor"
            if info and info["pid"] and program.probe.is_ready():
                break
            starts |= {info["start"]} if info else set()
            waited = time.monotonic() - began
            if word == "FATAL" or len(starts) >= MAX_STARTS or waited > self.settings.ready_timeout_s or not info:
                raise StackError(self._why(program.name, word, waited))
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                self._say(f"{program.name}: {word.lower()}, not ready after {waited:.0f} s")
            time.sleep(POLL_S)
        self._say(f"{program.name}: ready after {time.monotonic() - began:.1f} s")

    def _why(self, name: str, word: str, waited_s: float) -> str:
        tail = self.log_tail(name) or "(nothing)"
        return (
            f"{name} is not ready after {waited_s:.0f} s ({word.lower()}). End of {self.log_path(name)}:\n{tail}"
        )
