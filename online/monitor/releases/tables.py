"""The Releases page's tables. Pure."""

from datetime import UTC, datetime

from online.monitor import text
from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import utc
from schemas.history import Change
from schemas.releases import GATES, Outcome, Release, State

SHOWN_CHANGES = 50
NOT_RECORDED = "not recorded"

_RELEASES = (
    Column("generation", "Generation"),
    Column("version", "Version"),
    Column("state", "State"),
    Column("rows", "Rows", Kind.COUNT),
    Column("megabytes", "About MB", Kind.NUMBER),
    Column("computed_at", "Computed (UTC)", Kind.TIME),
    Column("age", "Age"),
    *(Column(gate, gate.capitalize()) for gate in GATES),
    Column("activated_at", "Activated (UTC)", Kind.TIME),
    Column("activated_by", "By"),
    Column("why", "Why"),
)
_GATES = (
    Column("generation", "Generation"),
    Column("version", "Version"),
    Column("gate", "Gate"),
    Column("outcome", "Outcome"),
    Column("at", "At (UTC)", Kind.TIME),
    Column("words", "What it said"),
)
_HISTORY = (
    Column("at", "At (UTC)", Kind.TIME),
    Column("by", "By"),
    Column("why", "Why"),
    Column("version", "Version after it"),
    Column("generation", "Generation after it"),
    Column("revision", "Revision"),
)


def releases_table(found: list[Release], now_ms: int, left_out: int, most: int) -> Table:
    note = (
        "Rows and computed-at are of the generation, megabytes what publishing reckoned it takes in Redis."
        " Activated is when it last went live, by activation or by rollback."
    )
    if left_out:
        note += f" {text.count(left_out)} runs older than the newest {most} are not shown."
    rows = [_row(one, now_ms) for one in found]
    empty = (
        "No night has begun for this model yet. Name it in the Airflow Variable hotset, and trigger the DAG"
        " nightly_precompute."
    )
    return Table("releases", "Generations", _RELEASES, rows, empty, note)


def gates_table(found: list[Release]) -> Table:
    """Without generations that are deleted, and steps that have not run."""
    rows: list[list[Cell]] = [
        [one.generation, one.version, gate.step, gate.outcome.value, _moment(gate.at), gate.words or None]
        for one in found
        if one.state is not State.DELETED
        for gate in one.gates
        if gate.outcome is not Outcome.NOT_RUN
    ]
    note = "From the run folders. A step that was refused keeps its reason until it passes."
    return Table("gates", "Gates", _GATES, rows, "No gate has run yet.", note)


def history_table(changes: list[Change]) -> Table:
    rows: list[list[Cell]] = [
        [change.at.astimezone(UTC), _by(change), change.why, change.stable, change.generation, change.after]
        for change in changes[:SHOWN_CHANGES]
    ]
    note = "From Redis, newest first. Lines of older programs do not say by whom."
    return Table("history", "Changes of what is live", _HISTORY, rows, "No change is known.", note)


def _row(one: Release, now_ms: int) -> list[Cell]:
    activated = one.activated
    age_s = (now_ms - one.computed_at_ms) / 1e3 if one.computed_at_ms is not None else None
    return [
        one.generation,
        one.version,
        one.state.value,
        one.rows,
        one.reckoned_bytes / 1e6 if one.reckoned_bytes is not None else None,
        utc(one.computed_at_ms // 1000) if one.computed_at_ms is not None else None,
        text.age(age_s),
        *(gate.outcome.value for gate in one.gates[: len(GATES)]),
        activated.at.astimezone(UTC) if activated else None,
        _by(activated) if activated else None,
        activated.why if activated else None,
    ]


def _by(change: Change) -> str:
    return change.by or NOT_RECORDED


def _moment(at: str | None) -> datetime | None:
    """A report's time; what is none is not shown."""
    try:
        moment = datetime.fromisoformat(at or "")
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else None
