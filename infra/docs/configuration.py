"""The configuration page, generated from the settings classes. Pure but for importing them."""

from collections.abc import Iterable

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from schemas.settings import default_text

HEAD = """# Configuration

Generated from the settings classes by `python -m infra.docs`; do not edit. Every process reads its settings from
the environment, once, when it starts. A name with a process's prefix that it does not know is refused, with the
nearest known name. Lists are JSON. Values of settings marked secret are never printed.
"""


def page(parts: Iterable[tuple[str, type[BaseSettings]]]) -> str:
    """The whole page in Markdown, for (title, settings class) pairs."""
    return HEAD + "".join(_section(title, cls) for title, cls in parts)


def _section(title: str, cls: type[BaseSettings]) -> str:
    prefix = cls.model_config["env_prefix"]
    rows = [_row(prefix, name, field) for name, field in cls.model_fields.items()]
    return f"\n## {title}\n\n| setting | default | what |\n|---|---|---|\n" + "".join(rows)


def _row(prefix: str, name: str, field: FieldInfo) -> str:
    default, what = default_text(field, "`"), field.description or ""
    return f"| `{prefix}{name.upper()}` | {_cell(default)} | {_cell(what)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
