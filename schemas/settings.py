"""How every process reads its settings: once, from the environment, with unknown names refused.

A misspelt name would otherwise be ignored in silence. Called by `__main__` and `main()` only.
"""

import difflib
import json
import os
from collections.abc import Mapping
from typing import TypeVar

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, SettingsError

Settings = TypeVar("Settings", bound=BaseSettings)


class BadSettings(ValueError):
    """A setting is unknown or has a value that is not allowed; the message names it, never its value."""


def load_settings(cls: type[Settings], environment: Mapping[str, str] = os.environ) -> Settings:
    """Builds `cls` from the environment.

    Raises:
        BadSettings: an unknown name with the class's prefix, or a bad value; all of them in one message.
    """
    prefix = cls.model_config["env_prefix"]
    known = {f"{prefix}{name}".upper() for name in cls.model_fields}
    problems = [
        f"{name} is no setting{_hint(name, known)}"
        for name in sorted(environment)
        if name.upper().startswith(prefix.upper()) and name.upper() not in known
    ]
    if problems:
        raise BadSettings("; ".join(problems))
    try:
        return cls()
    except ValidationError as error:
        raise BadSettings("; ".join(_line(prefix, e) for e in _errors(error))) from None
    except SettingsError as error:  # its message names the field, not the value
        raise BadSettings(f"{prefix}*: {error}; lists and objects are written as JSON") from None


def settings_help(cls: type[BaseSettings]) -> str:
    """All settings with defaults and descriptions: the epilog of a process's `--help`, unwrapped."""
    prefix = cls.model_config["env_prefix"]
    lines = ["settings, from the environment; lists and objects are written as JSON:"]
    for name, field in cls.model_fields.items():
        lines.append(f"  {prefix}{name.upper()} (default: {default_text(field)})\n      {field.description}")
    return "\n".join(lines).replace("%", "%%")


def default_text(field: FieldInfo, quote: str = "") -> str:
    """A setting's default, in quotes where it is a value and no word; what is secret is never shown."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, SecretStr):
        return "secret"
    if value is None or value in ("", (), []):
        return "none"
    return f"{quote}{json.dumps(value) if isinstance(value, tuple | list | dict) else value}{quote}"


def _errors(error: ValidationError) -> list[tuple[str, str]]:
    """Place and message of each; the input stays out, since it may be a secret."""
    found = error.errors(include_input=False, include_url=False)
    return [(".".join(map(str, item["loc"])), item["msg"]) for item in found]


def _line(prefix: str, error: tuple[str, str]) -> str:
    place, message = error
    return f"{prefix}{place.upper()}: {message}" if place else message


def _hint(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name.upper(), known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(known))}"
