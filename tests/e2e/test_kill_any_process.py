"""Killing any one process while look-ups run: the others' hits go on, every look-up ends answered, none wrong."""

import asyncio
import os
import signal
from collections.abc import Callable

import psutil
import pytest

from infra.demo.replay import Lookup, Replay, ReplayResult
from infra.demo.run import MODEL, DemoOptions, DemoOutcome, run_async
from infra.local.stack import LocalStack
from tests.e2e.bare_torch import Expected

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

KILL_AT_S = 4.0
VICTIMS = ("valkey", "inference", "inference worker", "api", "api worker", "monitor")


def victim_pid(stack: LocalStack, victim: str) -> int:
    """The process to kill; a worker is the youngest child that serves."""
    name, _, worker = victim.partition(" ")
    pid = stack.pid(name)
    assert pid, f"{name} does not run"
    if not worker:
        return pid
    return [child.pid for child in psutil.Process(pid).children() if _serves(child)][-1]


def _serves(child: psutil.Process) -> bool:
    try:
        return "resource_tracker" not in " ".join(child.cmdline())
    except psutil.ZombieProcess:  # just killed
        return False


async def replay_and_kill(options: DemoOptions, lookups: list[Lookup], kill: Callable[[], None]) -> ReplayResult:
    client = Replay("127.0.0.1", options.settings.port("api"), MODEL)
    asyncio.get_running_loop().call_later(KILL_AT_S, kill)
    return await client.run(lookups)


@pytest.mark.parametrize("victim", VICTIMS)
def test_killed(victim: str, demo: DemoOutcome, options: DemoOptions, expected: Expected) -> None:
    stack = LocalStack(options.settings)
    stack.start()
    pid = victim_pid(stack, victim)
    lookups = list(demo.lookups)

    result = run_async(replay_and_kill(options, lookups, lambda: os.kill(pid, signal.SIGKILL)))

    assert not psutil.pid_exists(pid) or victim_pid(stack, victim) != pid
    assert len(result.answered) == len(lookups)
    assert result.errors == 0
    assert expected.wrong(lookups, result.answered) == []
    if victim.partition(" ")[0] not in ("api", "valkey"):
        hits = [one for one in result.answered if lookups[one.index].entity in demo.night.hot]
        assert {one.attempts for one in hits} == {1}
        # Cached is what one of these others has left, now or when another process was killed.
        others = [one.answer for one in hits if one.source not in ("precomputed", "cached")]
        assert {answer["miss_reason"] for answer in others} <= {"redis_timeout", "breaker_open"}
    for name in stack.programs:
        stack.wait_until_ready(name)
