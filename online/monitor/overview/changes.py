"""What was released or changed in a window, for the charts' marks and the tables beside them. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC

from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import Window
from schemas.history import Change, switches

NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Changes:
    """Switches of what is live, newest first, and in words by step of the window."""

    switches: Sequence[Change]
    by_step: Mapping[int, str]

    @property
    def steps(self) -> list[int]:
        return sorted(self.by_step)

    @property
    def column(self) -> list[Column]:
        """Of a table over time: none where nothing changed."""
        return [Column("changed", "Released")] if self.by_step else []

    def cell(self, step: int) -> list[Cell]:
        return [self.by_step.get(step)] if self.by_step else []


def changes_within(history: list[Change], window: Window) -> Changes:
    """Those that made another version or generation live, by activation or rollback."""
    found = [one for one in switches(history) if window.start_s <= one.at.timestamp() < window.end_s]
    words: dict[int, list[str]] = defaultdict(list)
    for one in reversed(found):
        step = int(one.at.timestamp() - window.start_s) // window.range.step_s
        words[step].append(f"version {one.stable}, {one.generation or 'no generation'} ({one.why})")
    return Changes(found, {step: "; ".join(several) for step, several in words.items()})


def changes_table(found: Changes, problem: str | None) -> Table:
    columns = (
        Column("at", "At (UTC)", Kind.TIME),
        Column("version", "Version after it"),
        Column("generation", "Generation after it"),
        Column("why", "Why"),
        Column("by", "By"),
    )
    rows: list[list[Cell]] = [
        [one.at.astimezone(UTC), one.stable, one.generation, one.why, one.by or NOT_RECORDED]
        for one in found.switches
    ]
    note = "From the history of the routes document in Redis, newest first; the charts mark them by dashed lines."
    empty = f"{problem}." if problem else "Nothing was released or rolled back in this time range."
    return Table("changes", "What changed when", columns, rows, empty, note)
