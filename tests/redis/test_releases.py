"""The releases command over a real Valkey: what it shows, what it changes, and what it refuses."""

import json
import os
import pty
import sys
from pathlib import Path

import pytest
from redis import Redis

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.releases.__main__ import main
from batch_scoring.runs import Refused
from schemas.keys import bucket_key, routes_key, run_key
from tests.support.redis_server import RedisServer
from tests.support.released import Released
from tests.support.releases_command import NEW, OLD, SlowToSayYes, told


def test_shows_what_is_active_since_when_by_whom_and_with_which_gates(
    two: Released, capfd: pytest.CaptureFixture[str]
) -> None:
    waiting = two.gated(29, 30)
    status, found = told(capfd, "show", "--model", "delay")
    assert status == 0
    assert found["active"] == {"version": "1", "generation": NEW}
    assert found["rollback_to"] == {"version": "1", "generation": OLD}
    since = found["active_since"]
    assert isinstance(since, dict)
    assert since["why"] == f"activate {NEW}"
    assert since["by"].endswith(f"@{os.uname().nodename}")
    releases = found["releases"]
    assert isinstance(releases, list)
    assert [(one["generation"], one["state"]) for one in releases] == [
        (NEW, "active"),
        (waiting.generation, "ready to activate"),
        (OLD, "kept for rollback"),
    ]
    active = releases[0]
    assert (active["rows"], active["buckets"], active["reckoned_bytes"]) == (40, 1, 2_500_000)
    assert (active["in_redis"], 0 <= active["age_s"] < 60) == ("verified", True)
    assert [gate["outcome"] for gate in active["gates"]] == ["passed", "passed with warnings"]
    assert "no replica reports version 1 warm" in active["gates"][1]["words"]
    assert "40 read back" in active["gates"][0]["words"]


def test_the_tables_say_the_same(two: Released, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--model", "delay"]) == 0
    out = capfd.readouterr().out
    for words in (NEW, OLD, "kept for rollback", "verified", "passed with warnings", "2.5", f"activate {NEW}"):
        assert words in out
    assert main(["list"]) == 0
    assert "active is 20261128T0200Z-1 of version 1" in capfd.readouterr().out


def test_activates_what_passed_its_gate_and_says_when_nothing_is_to_be_done(
    two: Released, capfd: pytest.CaptureFixture[str]
) -> None:
    run = two.gated(29, 30)
    call = ("activate", "--model", "delay", "--generation", run.generation, "--yes", "--why", "after the fix")
    status, found = told(capfd, *call)
    assert (status, found["status"], two.live()) == (0, "done", ("1", run.generation))
    assert run.report("activate")
    newest = two.redis.lindex("hs:{delay}:history", 0)
    assert newest
    assert json.loads(newest)["why"] == f"activate {run.generation}: after the fix"
    before = two.redis.get(routes_key("delay"))
    assert told(capfd, *call)[1]["status"] == "unchanged"
    assert two.redis.get(routes_key("delay")) == before


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("older", "is older than 20261128T0200Z"),
        ("not verified", "verify of 20261129T0200Z-1 has not finished"),
        ("changed", "is not in Redis as it was verified"),
        ("gate refused", "the gate refused 20261129T0200Z-1"),
        ("newer run", "a newer run has begun"),
        ("no such run", "`list --model delay` names the generations there are"),
        ("no name", "is not a generation"),
    ],
)
def test_what_may_not_go_live_is_refused_before_anybody_is_asked(
    two: Released, capfd: pytest.CaptureFixture[str], case: str, words: str
) -> None:
    wanted = "20261129T0200Z-1"
    if case == "older":
        wanted = two.gated(26, 1).generation
    elif case == "not verified":
        run = two.publish(29, 1)
        assert publishing_main(["gate", "--run", run.url]) == 2
    elif case == "changed":
        two.gated(29, 1)
        two.redis.delete(bucket_key("delay", "1", wanted, 0))
    elif case == "gate refused":
        two.gated(29, 1).refuse("gate", Refused("no room"))
    elif case == "newer run":
        two.gated(29, 1)
        two.redis.incr(run_key("delay"))
    elif case == "no name":
        wanted = "../27"
    before = two.redis.get(routes_key("delay"))
    # Without --yes: asked it would say that there is no terminal.
    status, found = told(capfd, "activate", "--model", "delay", "--generation", wanted)
    assert (status, found["status"]) == (2, "refused")
    expected = "gate of 20261129T0200Z-1 has not finished" if case == "not verified" else words
    assert expected in str(found["reason"])
    assert two.redis.get(routes_key("delay")) == before


def test_a_refused_step_keeps_its_reason_until_it_passes(two: Released, capfd: pytest.CaptureFixture[str]) -> None:
    run = two.publish(29, 1)
    assert publishing_main(["gate", "--run", run.url]) == 2
    gates = _gates(capfd, run.generation)
    assert gates["gate"] == ("refused", "verify of 20261129T0200Z-1 has not finished: run it first")
    assert gates["verify"][0] == "not run"
    assert publishing_main(["verify", "--run", run.url]) == 0
    assert publishing_main(["gate", "--run", run.url]) == 0
    assert _gates(capfd, run.generation)["gate"][0] == "passed with warnings"


def test_retire_takes_out_what_is_beyond_and_keeps_what_a_rollback_needs(
    two: Released, capfd: pytest.CaptureFixture[str]
) -> None:
    newest = two.active(29, 30)
    status, found = told(capfd, "retire", "--model", "delay", "--yes", "--by", "anna")
    assert (status, two.live()) == (0, ("1", newest.generation))
    assert OLD in str(found["retired"])
    assert not two.redis.exists(bucket_key("delay", "1", OLD, 0))
    assert two.redis.exists(bucket_key("delay", "1", NEW, 0))
    _, shown = told(capfd, "show", "--model", "delay")
    assert isinstance(shown["releases"], list)
    assert [one["state"] for one in shown["releases"]] == ["active", "kept for rollback", "deleted"]
    since, history = shown["active_since"], shown["history"]
    assert isinstance(since, dict)
    assert isinstance(history, list)
    assert since["why"] == f"activate {newest.generation}"
    assert (history[0]["why"], history[0]["by"]) == ("retire", "anna")
    assert told(capfd, "rollback", "--model", "delay", "--yes")[0] == 0


def test_what_was_just_taken_out_stays_until_its_time_is_up(
    two: Released, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that began before may still read it."""
    two.active(29, 30)
    monkeypatch.setenv("BATCH_RETIRE_AFTER_S", "60")
    status, found = told(capfd, "retire", "--model", "delay", "--yes")
    assert status == 0
    assert OLD in str(found["retired"])
    assert two.redis.exists(bucket_key("delay", "1", OLD, 0))
    monkeypatch.setenv("BATCH_RETIRE_AFTER_S", "0")
    assert told(capfd, "retire", "--model", "delay", "--yes")[0] == 0
    assert not two.redis.exists(bucket_key("delay", "1", OLD, 0))


def test_without_a_terminal_it_wants_yes(two: Released, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["rollback", "--model", "delay"])
    said = capfd.readouterr()
    assert (status, said.out, two.live()) == (3, "", ("1", NEW))
    assert f"would roll delay back from {NEW} of version 1 to {OLD} of version 1" in said.err
    assert "confirm with --yes" in said.err


@pytest.mark.parametrize(
    ("answer", "status", "live"), [("n\n", 3, NEW), ("\n", 3, NEW), ("maybe\n", 3, NEW), ("y\n", 0, OLD)]
)
def test_at_a_terminal_it_asks(
    two: Released,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    answer: str,
    status: int,
    live: str,
) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as keyboard, os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        keyboard.write(answer.encode())
        assert main(["rollback", "--model", "delay"]) == status
    assert two.live() == ("1", live)
    assert "Go on? [y/N]" in capfd.readouterr().err


def test_a_server_that_goes_away_while_it_changes_leaves_no_certainty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with RedisServer() as server, Redis.from_url(server.url) as client:
        made = Released(tmp_path, server.url, client)
        made.active(27, 10)
        made.active(28, 20)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdin", SlowToSayYes(server.stop))
        status, found = told(capfd, "rollback", "--model", "delay")
    assert (status, found["status"]) == (1, "uncertain")
    assert "`show` says what is active now" in str(found["reason"])


def test_without_redis_it_says_where_it_looked(
    made: Released, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BATCH_REDIS_URL", "redis://:hidden@127.0.0.1:9/0")
    status, found = told(capfd, "list")
    assert (status, found["status"]) == (1, "unreachable")
    assert "at 127.0.0.1:9" in str(found["reason"])
    assert "hidden" not in str(found)


@pytest.mark.parametrize(
    ("model", "words"), [("nope", "the models with runs are delay"), ("Delay", "is not a model name")]
)
def test_an_unknown_model_is_refused(
    two: Released, capfd: pytest.CaptureFixture[str], model: str, words: str
) -> None:
    status, found = told(capfd, "show", "--model", model)
    assert status == 2
    assert words in str(found["reason"])


def test_help_says_what_the_exit_status_means(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "3 not confirmed, nothing has changed" in capfd.readouterr().out


def _gates(capfd: pytest.CaptureFixture[str], generation: str) -> dict[str, tuple[str, str]]:
    _, found = told(capfd, "show", "--model", "delay")
    assert isinstance(found["releases"], list)
    [one] = [one for one in found["releases"] if one["generation"] == generation]
    return {gate["step"]: (gate["outcome"], gate["words"]) for gate in one["gates"]}
