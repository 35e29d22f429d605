"""The history of a model's routes document: who changed what is live, when and why. Pure.

The list `hs:{m}:history` holds JSON lines, the newest first, and is bounded: what is older is not known.
"""

from collections.abc import Iterable

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

LiveSet = tuple[str, str | None]
# `from` of the line that made the first document.
_NOTHING = "0.0"


class Change(BaseModel):
    """One line. `stable` and `generation` are what was live after it; `by` is absent in lines of older writers."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    at: AwareDatetime
    why: str
    by: str | None = None
    before: str = Field(alias="from")
    after: str = Field(alias="to")
    stable: str
    generation: str | None = None

    @property
    def live(self) -> LiveSet:
        return self.stable, self.generation


def read_history(lines: Iterable[bytes]) -> list[Change]:
    """The changes, newest first; a line that is none is left out."""
    found = []
    for line in lines:
        try:
            found.append(Change.model_validate_json(line))
        except ValidationError:
            continue
    return found


def switches(changes: list[Change]) -> list[Change]:
    """Those that made something else live, newest first.

    The oldest known line counts where it made the first document, or says itself what it activated: what was live
    before it is not known.
    """
    found: list[Change] = []
    before: LiveSet | None = None
    for change in reversed(changes):
        is_first_known = before is None
        is_switch = change.before == _NOTHING or change.why.startswith(("activate", "release", "rollback"))
        if is_switch if is_first_known else change.live != before:
            found.append(change)
        before = change.live
    return found[::-1]


def last_switch_to(changes: list[Change]) -> dict[LiveSet, Change]:
    """For each set that has been live, the change that made it so last."""
    return {change.live: change for change in reversed(switches(changes))}
