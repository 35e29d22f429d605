"""The local stack, with the real supervisor, the real Valkey and small programs of the tests' own."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from infra.local.programs import Program, admin_token, default_programs
from infra.local.ready import HttpProbe
from infra.local.settings import LOOPBACK, StackSettings
from infra.local.stack import LocalStack, StackError
from infra.local.supervision import MARK, marked_pids

MakeStack = Callable[..., LocalStack]


def server(name: str, port: int, *, root: str = "/", **env: str) -> Program:
    """A small web server under supervision: ready when it lists `root`."""
    argv = (sys.executable, "-m", "http.server", str(port), "--bind", LOOPBACK, "--directory", root)
    return Program(name, argv, HttpProbe(LOOPBACK, port, "/"), env)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], object], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)


def client(stack: LocalStack) -> "redis.Redis":
    return redis.Redis.from_url(stack.settings.redis_url)


def test_valkey_persists_and_evicts_only_what_may_go(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.start(["valkey"])
    with client(stack) as link:
        found = link.config_get("*")
        link.set("kept", "1")
    wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "volatile-lfu", "save": ""}
    assert {name: found[name] for name in wanted} == wanted
    assert int(found["maxmemory"]) == 1 << 30

    stack.restart("valkey")

    with client(stack) as link:
        assert link.get("kept") == b"1"


def test_starting_twice_leaves_what_runs(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.start(["valkey"])
    before, token = stack.pid("valkey"), admin_token(stack.settings).read_text()
    stack.start(["valkey"])
    assert stack.pid("valkey") == before
    assert admin_token(stack.settings).read_text() == token
    assert admin_token(stack.settings).stat().st_mode & 0o077 == 0
    assert stack.states()["valkey"] == "ready"


def test_a_killed_process_comes_back_and_the_others_stay(make_stack: MakeStack) -> None:
    ports = free_port(), free_port()
    stack = make_stack([server("a", ports[0]), server("b", ports[1])])
    stack.start()
    a, b = stack.pid("a"), stack.pid("b")
    assert a
    os.kill(a, signal.SIGKILL)
    wait_for(lambda: stack.pid("a") not in (a, None))
    stack.wait_until_ready("a")
    assert stack.pid("b") == b


def test_only_a_process_whose_settings_changed_is_restarted(make_stack: MakeStack, tmp_path: Path) -> None:
    ports = free_port(), free_port()
    stack = make_stack([server("a", ports[0]), server("b", ports[1])])
    stack.start()
    before = stack.pid("a"), stack.pid("b")
    changed = LocalStack(stack.settings, {}, [server("a", ports[0]), server("b", ports[1], root=str(tmp_path))])
    changed.start()
    assert changed.pid("a") == before[0]
    assert changed.pid("b") != before[1]


def test_values_reach_a_process_as_they_are(make_stack: MakeStack) -> None:
    odd = {"JSON": '["a", "b"]', "PERCENT": "100%(x)s", "QUOTES": 'it\'s "so" ; # not a comment', "EMPTY": ""}
    port = free_port()
    stack = make_stack([server("a", port, **odd)])
    stack.start()
    raw = Path(f"/proc/{stack.pid('a')}/environ").read_bytes().split(b"\0")
    assert [name for name, text in odd.items() if f"{name}={text}".encode() not in raw] == []


def test_a_process_that_ends_at_once_is_named_with_its_last_words(make_stack: MakeStack) -> None:
    broken = Program(
        "broken",
        (sys.executable, "-c", "raise SystemExit('no such bundle')"),
        HttpProbe(LOOPBACK, free_port(), "/"),
    )
    stack = make_stack([broken])
    with pytest.raises(StackError, match=r"(?s)broken is not ready.*broken\.log.*no such bundle"):
        stack.start()


def test_a_process_that_never_answers_is_named(make_stack: MakeStack) -> None:
    silent = Program(
        "silent", (sys.executable, "-c", "import time; time.sleep(60)"), HttpProbe(LOOPBACK, free_port(), "/")
    )
    stack = make_stack([silent], ready_timeout_s=1)
    with pytest.raises(StackError, match="silent is not ready after 1 s"):
        stack.start()


def test_a_taken_port_is_said_and_nothing_of_the_other_program_is_touched(make_stack: MakeStack) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        stack = make_stack([server("a", other.getsockname()[1])])
        with pytest.raises(StackError, match=r"a: port \d+ is taken by another program"):
            stack.start()
        assert stack.pid("a") is None


def test_an_awkward_state_folder_works(make_stack: MakeStack) -> None:
    stack = make_stack(folder="odd % name (1)/" + "long" * 25)
    stack.start(["valkey"])
    with client(stack) as link:
        assert link.ping()
    assert (stack.settings.state / "valkey" / "appendonlydir").is_dir()


def test_two_stacks_run_side_by_side(make_stack: MakeStack) -> None:
    one, two = make_stack(folder="one"), make_stack(folder="two")
    one.start(["valkey"])
    two.start(["valkey"])
    with client(one) as link:
        link.set("x", "1")
    with client(two) as link:
        assert link.get("x") is None
    one.stop()
    assert two.states()["valkey"] == "ready"


def test_stop_leaves_nothing_and_may_be_repeated(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.start(["valkey"])
    stack.stop()
    stack.stop()
    assert marked_pids(f"{MARK}={stack.settings.state}") == []
    assert set(stack.states().values()) == {"STOPPED"}


def test_after_a_crash_of_the_supervisor_start_takes_over_and_stop_leaves_nothing(make_stack: MakeStack) -> None:
    stack = make_stack()
    mark = f"{MARK}={stack.settings.state}"
    for again in (lambda: stack.start(["valkey"]), stack.stop):
        stack.start(["valkey"])
        supervisor = int((stack.settings.state / "supervisord.pid").read_text())
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: stack.pid("valkey") is None)
        assert marked_pids(mark), "Valkey goes on without its supervisor"
        again()
    assert marked_pids(mark) == []


def test_a_pid_file_that_names_a_stranger_harms_nobody(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.settings.state.mkdir(parents=True)
    (stack.settings.state / "supervisord.pid").write_text(f"{os.getpid()}\n")
    stack.stop()
    stack.start(["valkey"])
    assert stack.states()["valkey"] == "ready"


def test_another_server_binary_may_be_named(tmp_path: Path) -> None:
    settings = StackSettings.on_free_ports(tmp_path, valkey_server="/usr/bin/redis-server")
    assert default_programs(settings, {})[0].argv[0] == "/usr/bin/redis-server"


@pytest.mark.fault
def test_a_kill_of_valkey_loses_at_most_the_last_second(make_stack: MakeStack) -> None:
    stack = make_stack()
    stack.start(["valkey"])
    written = 0
    began = time.monotonic()
    with client(stack) as link:
        while time.monotonic() - began < 3:
            written += 1
            link.set(f"k{written}", time.monotonic())
    killed_at = time.monotonic()
    pid = stack.pid("valkey")
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: stack.pid("valkey") not in (pid, None))
    stack.wait_until_ready("valkey")
    with client(stack) as link:
        left = link.dbsize()
        last = float(link.get(f"k{left}"))
    assert killed_at - last < 2
