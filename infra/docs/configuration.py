"""The configuration page, generated from the settings classes. Pure but for importing them."""

from collections.abc import Iterable

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

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
    what = (field.description or "").replace("|", "\\|")
    return f"| `{prefix}{name.upper()}` | {_default(field)} | {what} |\n"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, SecretStr):
        return "secret"
    if value is None or value in ("", (), []):
        return "none"
    text = str(list(value)) if isinstance(value, tuple) else str(value)
    return f"`{text}`".replace("|", "\\|")
