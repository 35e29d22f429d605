"""Tasks of a compaction that outlive the run which began them."""

import os
import signal
from pathlib import Path

import pytest

from batch_scoring.requestlog.hours import Hour, NotPossible, locked
from batch_scoring.requestlog.turns import Turn
from tests.support.request_log import utc

MODEL = "007"


def hour(root: Path, name: str = "2026-11-27 05:00") -> Hour:
    begin = utc(name)
    return Hour(root, f"model={MODEL}/date={begin:%Y-%m-%d}/hour={begin:%H}", begin)


def begin(root: Path) -> Turn:
    with locked(root, MODEL):
        return Turn.begin(root, MODEL)


def held_by_another(turn: Turn, one: Hour) -> int:
    """A process that is at this hour until it is killed; returns when it is."""
    came, tells = os.pipe()
    child = os.fork()
    if child == 0:
        with turn.at(one):
            os.write(tells, b".")
            signal.pause()
        os._exit(1)
    os.close(tells)
    assert os.read(came, 1) == b"."
    os.close(came)
    return child


def test_no_turn_begins_while_a_task_of_an_earlier_one_runs(tmp_path: Path) -> None:
    child = held_by_another(begin(tmp_path), hour(tmp_path))
    with pytest.raises(NotPossible, match="tasks of an earlier compaction of 007 still run; try again"):
        begin(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with begin(tmp_path).at(hour(tmp_path)):
        pass


def test_a_task_that_begins_late_finds_that_its_turn_is_over(tmp_path: Path) -> None:
    earlier, later = begin(tmp_path), begin(tmp_path)
    with pytest.raises(NotPossible, match="another compaction has begun"), earlier.at(hour(tmp_path)):
        pass
    with later.at(hour(tmp_path)):
        pass


def test_two_attempts_at_an_hour_follow_each_other_and_other_hours_go_on(tmp_path: Path) -> None:
    turn = begin(tmp_path)
    child = held_by_another(turn, hour(tmp_path))
    with turn.at(hour(tmp_path, "2026-11-27 06:00")):
        pass
    waits = os.fork()
    if waits == 0:
        with turn.at(hour(tmp_path)):
            os._exit(7)
    assert os.waitpid(waits, os.WNOHANG) == (0, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    _, status = os.waitpid(waits, 0)
    assert os.waitstatus_to_exitcode(status) == 7
