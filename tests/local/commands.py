"""Runs `python -m infra.local` as a user does."""

import os
import subprocess
import sys

from infra.local.settings import HOME


def local(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "infra.local", *words]
    return subprocess.run(argv, env={**os.environ, **env}, cwd=HOME, capture_output=True, text=True)
