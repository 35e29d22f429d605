"""`python -m tests.planning.page`: writes the planner's outputs into its pages, each by the command above it."""

import contextlib
import io
import re
import shlex
from pathlib import Path

from online.planning.__main__ import main

_HOME = Path(__file__).parents[2]
PAGES = (_HOME / "README.md", _HOME / "infra" / "docs" / "planning.md")
_COMMAND = ".venv/bin/python -m online.planning "
_BLOCK = re.compile(
    r"(?P<before>```sh\n(?P<line>[^\n]+)\n```\n\n<!-- output -->\n).*?(?P<after><!-- end -->)", re.DOTALL
)


def renewed(text: str) -> str:
    """The page with every output as its command gives it now."""
    return _BLOCK.sub(lambda found: f"{found['before']}{_output(found['line'])}{found['after']}", text)


def _output(line: str) -> str:
    assert line.startswith(_COMMAND), line
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(shlex.split(line.removeprefix(_COMMAND)))
    assert status == 0, line
    return out.getvalue()


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
