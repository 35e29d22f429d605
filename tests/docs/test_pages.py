"""README and the pages it links: links lead somewhere, commands exist, the configuration page is current."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from infra.docs.__main__ import main as docs_main

HOME = Path(__file__).parents[2]
PAGES = sorted(
    [HOME / "README.md", *(HOME / "infra" / "docs").glob("*.md"), HOME / "infra" / "local" / "README.md"]
)
MODULE = re.compile(r"\.venv/bin/python -m ([a-z_.]+)((?: [a-z][a-z-]*)?)")


def commands(kind: str) -> list[tuple[str, str]]:
    """(page, line) of each shell line of the pages that begins with `kind`."""
    return [
        (page.name, line.strip())
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for line in block.splitlines()
        if line.startswith(kind)
    ]


@cache
def help_of(*words: str) -> str:
    """What the command says of itself; asked once, since a process of it takes a second."""
    call = [sys.executable, "-m", *words, "--help"]
    done = subprocess.run(call, cwd=HOME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(("page", "line"), commands("make "))
def test_make_targets_exist(page: str, line: str) -> None:
    target = shlex.split(line, comments=True)[1]
    done = subprocess.run(["make", "-n", "-q", target], cwd=HOME, capture_output=True, text=True, check=False)
    assert "No rule to make target" not in done.stderr, page


@pytest.mark.parametrize(("page", "line"), commands(".venv/bin/python -m "))
def test_commands_exist(page: str, line: str) -> None:
    found = MODULE.match(line)
    assert found, (page, line)
    said = help_of(found[1], *found[2].split())
    for option in re.findall(r" (--[a-z-]+)", line):
        assert option in said, (option, said)


def test_the_configuration_page_is_current() -> None:
    assert docs_main(["--check"]) == 0
