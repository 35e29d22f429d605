"""The commands of the README's runbook, as they stand there, on a release that went wrong."""

import json
import shlex
import time
from pathlib import Path

import pytest

from batch_scoring.releases.__main__ import main
from schemas.history import read_history
from schemas.keys import REPLICAS_KEY, history_key
from tests.support.released import Released

_README = Path(__file__).parents[2] / "README.md"
_COMMAND = ".venv/bin/python -m batch_scoring.releases "


def commands() -> list[list[str]]:
    """Of the runbook, word by word; what asks for a confirmation is given it."""
    _, _, book = _README.read_text(encoding="utf-8").partition("## Runbook\n")
    lines = book.partition("\n## ")[0].splitlines()
    return [[*shlex.split(line.removeprefix(_COMMAND)), "--yes"] for line in lines if line.startswith(_COMMAND)]


@pytest.fixture
def released(made: Released) -> Released:
    """Version 8 has replaced version 7 on a live tier that has both warm."""
    warm = [
        {"model": "delay", "version": version, "digest": made.small(version).digest, "state": "ready"}
        for version in ("7", "8")
    ]
    at_ms = int(time.time() * 1000) + 60_000
    made.redis.hset(REPLICAS_KEY, "n1", json.dumps({"at_ms": at_ms, "versions": warm}))
    made.active(27, 10, version="7")
    made.active(28, 20, version="8")
    assert made.live() == ("8", "20261128T0200Z-1")
    return made


def test_each_way_back_leads_to_the_version_before(released: Released) -> None:
    found = commands()
    assert [words[0] for words in found] == ["rollback", "rollback"]
    for words in found:
        assert main(words) == 0
        assert released.live() == ("7", "20261127T0200Z-1")
        newest, *_ = read_history(released.redis.lrange(history_key("delay"), 0, -1))
        assert newest.why == f"rollback: {words[words.index('--why') + 1]}"
        assert main(["rollback", "--model", "delay", "--yes"]) == 0
        assert released.live()[0] == "8"
