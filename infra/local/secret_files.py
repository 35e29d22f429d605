"""Secrets that the parts of one machine share: made once for each state folder, readable by their owner only."""

import secrets
from pathlib import Path


def secret_of(path: Path) -> str:
    """The secret that the file holds; a new one where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32), encoding="ascii")
    return path.read_text(encoding="ascii")
