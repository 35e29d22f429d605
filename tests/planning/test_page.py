"""README and the planner's page say what their commands say."""

from pathlib import Path

import pytest

from tests.planning.page import PAGES, renewed


@pytest.mark.parametrize(("page", "outputs"), [(PAGES[0], 1), (PAGES[1], 6)], ids=lambda one: str(one)[-11:])
def test_every_number_of_the_page_is_its_commands(page: Path, outputs: int) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- output -->\n**") == text.count("<!-- end -->") >= outputs
    assert renewed(text) == text
