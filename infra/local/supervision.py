"""The supervisor of one stack: its process file, its socket, its calls, its end.

supervisor 4.3 rather than honcho, because it restarts the process that died and leaves the others alone.
"""

import contextlib
import functools
import hashlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import Faults, SupervisorTransport

from infra.local.programs import Program

# sockaddr_un holds 107 bytes, and supervisor first binds PATH.PID.
MAX_SOCKET_PATH_BYTES = 107 - 12
# Every process of a stack carries this in its environment: how orphans of a dead supervisor are found.
MARK = "LOCAL_STACK_STATE"
START_S = 15.0

_HEAD = """\
[unix_http_server]
file={socket}
chmod=0700

[supervisord]
logfile=log/supervisord.log
logfile_maxbytes=5MB
logfile_backups=1
pidfile=supervisord.pid
childlogdir=log

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""

# After a start that fails within startsecs supervisor waits a second longer each time, up to startretries.
_PROGRAM = """
[program:{name}]
command={command} run/{name}.json
autostart=false
autorestart=true
startsecs=1
startretries=20
stopsignal=TERM
stopwaitsecs={stop_wait_s}
killasgroup=true
redirect_stderr=true
stdout_logfile=log/{name}.log
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=3
"""


class Supervisor:
    """One supervisord: `start_daemon`, calls by `rpc`, `stop_daemon`. State lies under `state`."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._config = state / "supervisord.conf"
        self._pidfile = state / "supervisord.pid"
        self.socket = _socket_path(state)

    def write_config(self, programs: Iterable[Program]) -> None:
        """The process file. Commands are fixed: what they run is in `STATE/run/NAME.json`.

        Paths are relative to the state folder, in which supervisord runs: supervisor expands % in some
        values once and in others twice, so that no absolute path with one could be written.
        """
        inside = self.socket.parent == self._state
        text = _HEAD.format(socket=self.socket.name if inside else _escape(str(self.socket)))
        for program in programs:
            command = shlex.join([sys.executable, str(Path(__file__).with_name("launch.py"))])
            text += _PROGRAM.format(name=program.name, command=_escape(command), stop_wait_s=program.stop_wait_s)
        (self._state / "log").mkdir(parents=True, exist_ok=True)
        self._config.write_text(text, encoding="utf-8")

    def is_running(self) -> bool:
        try:
            with self.rpc() as calls:
                return bool(calls.getState()["statename"] == "RUNNING")
        except (OSError, Fault):
            return False

    @contextlib.contextmanager
    def rpc(self) -> Iterator[Any]:
        """Calls of supervisor's XML-RPC interface. Raises OSError where no supervisor listens."""
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        try:
            yield ServerProxy("http://127.0.0.1", transport=transport).supervisor
        finally:
            transport.close()

    def start_daemon(self) -> None:
        """Starts supervisord, unless it runs, and reads the process file again if it does.

        Raises:
            RuntimeError: it did not come up; its own words are in the message.
        """
        if self.is_running():
            with self.rpc() as calls:
                added, _changed, _removed = cast(list[list[str]], calls.reloadConfig()[0])
                for name in added:
                    calls.addProcessGroup(name)
            return
        self.stop_daemon()
        self.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        argv = [sys.executable, "-m", "supervisor.supervisord", "-c", str(self._config)]
        env = {**os.environ, MARK: str(self._state)}
        done = subprocess.run(argv, env=env, cwd=self._state, capture_output=True, text=True, check=False)
        if done.returncode or not _wait_for(self.is_running, START_S):
            raise RuntimeError(f"supervisor did not start: {done.stdout}{done.stderr}")

    def stop_daemon(self) -> None:
        """Stops supervisord and everything of this stack, also what a crashed supervisor left behind."""
        pid = self._daemon_pid()
        if self.is_running():
            with self.rpc() as calls, contextlib.suppress(Fault, OSError):
                calls.shutdown()
        elif pid:
            _kill(pid, signal.SIGTERM)
        if pid:
            _wait_for(lambda: self._is_gone(pid), 60)
        end_marked(f"{MARK}={self._state}")
        for path in (self._pidfile, self.socket):
            path.unlink(missing_ok=True)
        if self.socket.parent != self._state:
            with contextlib.suppress(OSError):
                self.socket.parent.rmdir()

    def _is_gone(self, pid: int) -> bool:
        # Its loop notices ended children once a second, or at a call.
        with contextlib.suppress(OSError, Fault, HTTPException), self.rpc() as calls:
            calls.getState()
        return not _is_alive(pid)

    def _daemon_pid(self) -> int | None:
        """The pid in the pid file, if that process is still a supervisord of this stack."""
        try:
            pid = int(self._pidfile.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return pid if pid in marked_pids(f"{MARK}={self._state}") else None


def marked_pids(mark: str) -> list[int]:
    """Processes of this user whose environment holds `mark` (NAME=VALUE)."""
    if not Path("/proc/self/environ").exists():
        listed = subprocess.run(["ps", "eww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        return [int(line.split()[0]) for line in listed.stdout.splitlines() if f" {mark} " in f"{line} "]
    found = []
    for entry in Path("/proc").iterdir():
        # Processes end while we read, and others' environments are closed to us.
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_marked(mark: str) -> None:
    """Ends every process that carries `mark`: SIGTERM, and ten seconds later SIGKILL."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        left = [pid for pid in marked_pids(mark) if pid != os.getpid()]
        for pid in left:
            _kill(pid, sent)
        if _wait_for(functools.partial(_all_gone, left), 10):
            return


def end_group(process: "subprocess.Popen[Any]") -> None:
    """Ends a process that leads a session, and its children: some overwrite the environment that marks them."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        if _wait_for(lambda: process.poll() is not None and not _has_members(process.pid), 10):
            return


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _all_gone(pids: list[int]) -> bool:
    return not any(map(_is_alive, pids))


def already(fault: Fault, *names: str) -> bool:
    """Whether a fault only says that the process is in the wanted state, or in none."""
    return fault.faultCode in {getattr(Faults, name) for name in names}


def _socket_path(state: Path) -> Path:
    """Inside the state folder, or where that path is too long for a socket, in a private temporary folder."""
    inside = state / "supervisor.sock"
    if len(os.fsencode(inside)) <= MAX_SOCKET_PATH_BYTES:
        return inside
    digest = hashlib.blake2b(os.fsencode(state), digest_size=6).hexdigest()
    return Path(tempfile.gettempdir()) / f"hotset-{os.getuid()}-{digest}" / "supervisor.sock"


def port_is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _kill(pid: int, sent: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sent)


def _wait_for(condition: Any, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
