"""README and all pages: links lead somewhere, commands and settings exist, the configuration page is current."""

import importlib.util
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from infra.docs.__main__ import PARTS
from infra.docs.__main__ import main as docs_main
from tests.support.commands import run_command

HOME = Path(__file__).parents[2]
PAGES = sorted([HOME / "README.md", HOME / "CHANGELOG.md", *(HOME / "infra").glob("**/*.md")])
INLINE = re.compile(r"`(?:\.venv/bin/)?python -m ([a-z_.]+)((?: [a-z][a-z-]*)?)([^`\n]*)`")
SETTING = re.compile(r"\b(?:API|INFERENCE|MONITOR|BATCH|HOTSET)_[A-Z_]*[A-Z]\b")
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


def help_of(*words: str) -> str:
    """What the command says of itself."""
    done = run_command(*words, "--help")
    assert done.status == 0, done.err
    return done.out


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_settings_within_a_sentence_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for module, command, rest in INLINE.findall(text):
        said = help_of(module, *command.split()) if rest else ""
        assert importlib.util.find_spec(module), module
        assert [option for option in re.findall(r" (--[a-z-]+)", rest) if option not in said] == []
    known = {f"{cls.model_config['env_prefix']}{name.upper()}" for _, cls in PARTS for name in cls.model_fields}
    assert set(SETTING.findall(text)) - known == set()


def test_the_configuration_page_is_current() -> None:
    assert docs_main(["--check"]) == 0
