"""The users of infra/docs/redis.md, read from the page, so that what it says is what is tested."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "infra" / "docs" / "redis.md"
_LINE = re.compile(r"^ACL SETUSER (hotset-\w+) (.*)$", re.MULTILINE)


def documented_users(password: str) -> dict[str, list[str]]:
    """The rules of each user, in order; for the model `delay`, as the page has them."""
    users: dict[str, list[str]] = {}
    for user, rules in _LINE.findall(_PAGE.read_text(encoding="utf-8")):
        users.setdefault(user, []).extend(rules.replace("SECRET", password).split())
    return users
