"""How every process reads its settings: once, from the environment, with unknown names refused.

A misspelt name would otherwise be ignored in silence. Called by `__main__` and `main()` only.
"""

import difflib
import os
from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError
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
