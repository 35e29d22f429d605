"""The releases command, in this process and in one of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batch_scoring.releases.__main__ import main

ROOT = Path(__file__).parents[2]
# The generations of the fixture `two`, of which the newer is live.
OLD, NEW = "20261127T0200Z-1", "20261128T0200Z-1"


class SlowToSayYes:
    """Somebody at a terminal; `meanwhile` happens while they think."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        self._meanwhile()
        return "yes\n"


def told(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    """Exit status and the one JSON document."""
    capfd.readouterr()
    status = main([*words, "--json"])
    document: dict[str, object] = json.loads(capfd.readouterr().out)
    return status, document


def run_command(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "batch_scoring.releases", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
