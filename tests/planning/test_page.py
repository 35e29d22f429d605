"""The page says what its commands say."""

from tests.planning.page import PAGE, renewed


def test_every_number_of_the_page_is_its_commands() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- output -->\n**") == text.count("<!-- end -->") >= 6
    assert renewed(text) == text
