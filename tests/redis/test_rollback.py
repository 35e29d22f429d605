"""Rolling back by the releases command over a real Valkey, and what clients are answered then."""

import json
import subprocess
import sys
import time

import pytest

from batch_scoring.publishing.activate import rollback
from batch_scoring.runs import Refused
from schemas.keys import generation_manifest_key
from tests.support.api_process import ApiProcess, wait_for
from tests.support.released import ENTITIES, Released
from tests.support.releases_command import NEW, OLD, ROOT, SlowToSayYes, run_command, told


def test_rollback_goes_back_within_two_seconds_and_says_who_and_why(
    two: Released, capfd: pytest.CaptureFixture[str]
) -> None:
    # The start of Python included; the best of three, since other tests may keep the machine busy.
    for attempt in range(3):
        begun = time.monotonic()
        done = run_command(
            "rollback", "--model", "delay", "--yes", "--why", "wrong labels", "--by", "anna", "--json"
        )
        took_s = time.monotonic() - begun
        assert done.returncode == 0, done.stderr
        wanted = (OLD, NEW)[attempt % 2]
        assert json.loads(done.stdout)["after"] == {"version": "1", "generation": wanted}
        assert two.live() == ("1", wanted)
        if took_s < 2:
            break
    else:
        raise AssertionError(f"{took_s:.1f} s")
    _, found = told(capfd, "show", "--model", "delay")
    since = found["active_since"]
    assert isinstance(since, dict)
    assert (since["by"], since["why"]) == ("anna", "rollback: wrong labels")


def test_a_rollback_loads_nothing_that_it_has_no_use_for() -> None:
    code = (
        "import sys, batch_scoring.releases.__main__;"
        " print([n for n in ('pyarrow', 'pandas', 'rich', 'pyspark', 'torch') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_rollback_from_a_named_generation_may_be_repeated(
    two: Released, capfd: pytest.CaptureFixture[str]
) -> None:
    call = ("rollback", "--model", "delay", "--from", NEW, "--yes")
    assert told(capfd, *call)[0] == 0
    status, found = told(capfd, *call)
    assert (status, found["status"], two.live()) == (0, "unchanged", ("1", OLD))
    assert found["before"] == found["after"] == {"version": "1", "generation": OLD}


def test_two_who_ask_for_the_same_rollback_go_back_once(two: Released) -> None:
    rollback(two.settings, "delay", "first", leaving=("1", NEW))
    with pytest.raises(Refused, match="it has been changed already"):
        rollback(two.settings, "delay", "second", leaving=("1", NEW))
    assert two.live() == ("1", OLD)


def test_what_was_shown_is_what_is_rolled_back_though_somebody_was_quicker(
    two: Released, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SlowToSayYes(lambda: rollback(two.settings, "delay", "quicker")))
    status, found = told(capfd, "rollback", "--model", "delay")
    assert (status, found["status"], two.live()) == (2, "refused", ("1", OLD))


def test_a_rollback_to_what_redis_has_lost_is_refused(two: Released, capfd: pytest.CaptureFixture[str]) -> None:
    two.redis.delete(generation_manifest_key("delay", "1", OLD))
    status, found = told(capfd, "rollback", "--model", "delay", "--yes")
    assert (status, two.live()) == (2, ("1", NEW))
    assert "no longer in Redis" in str(found["reason"])


@pytest.mark.parametrize("words", [(), ("--to", "1")], ids=["what was live before", "to a version"])
def test_a_rollback_to_a_version_without_a_warm_replica_warns(
    made: Released, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    made.active(27, 10)
    made.redis.hset(
        "hs:replicas",
        "n1",
        json.dumps(
            {
                "at_ms": int(time.time() * 1000) + 60_000,
                "versions": [
                    {"model": "delay", "version": "2", "digest": made.small("2").digest, "state": "ready"}
                ],
            }
        ),
    )
    made.active(28, 20, version="2")
    status, found = told(capfd, "rollback", "--model", "delay", "--yes", *words)
    assert (status, made.live()) == (0, ("1", OLD))
    assert "no replica reports version 1 warm" in str(found["warnings"])


def test_a_rollback_changes_what_the_endpoint_answers(two: Released, capfd: pytest.CaptureFixture[str]) -> None:
    with ApiProcess(two.folder, redis_url=two.redis_url, models=["delay"]) as api:

        def minutes() -> float | None:
            answer = api.client.get(f"/v1/models/delay/predictions/{ENTITIES[0]}")
            return float(answer.json()["outputs"]["minutes"]) if answer.status_code == 200 else None

        wait_for(lambda: minutes() == 20, what="the newest generation")
        assert told(capfd, "rollback", "--model", "delay", "--yes")[0] == 0
        wait_for(lambda: minutes() == 10, 2.0, "what was live before")
