"""The releases of a model as people read them on a terminal."""

from datetime import UTC, datetime

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from batch_scoring.releases.look import ModelReleases
from batch_scoring.releases.plans import named
from schemas.history import Change
from schemas.releases import GATES, Release, State, fallback_set, live_set, rollback_set

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_RIGHT = ("rows", "about MB", "age")


def releases_table(found: ModelReleases) -> Table:
    """One row a generation, the active one first."""
    names = ("generation", "version", "state", "in Redis", "rows", "about MB", "age", "verify", "gate")
    table = _table(f"releases of {found.model}", (*names, "activated", "by"))
    for one in found.releases:
        activated = one.activated
        table.add_row(
            one.generation,
            one.version,
            one.state,
            found.in_redis[one.version, one.generation],
            _rows(one),
            "–" if one.reckoned_bytes is None else f"{one.reckoned_bytes / 1e6:,.1f}",
            _age(one, found.now_ms),
            *(gate.outcome for gate in one.gates[: len(GATES)]),
            _at(activated),
            _by(activated) if activated else "",
            style="bold" if one.state is State.ACTIVE else None,
        )
    return table


def summary(found: ModelReleases) -> Text:
    document = found.document
    if document is None:
        return Text(f"{found.model}: nothing is active yet")
    since, back = found.since, rollback_set(document)
    lines = [
        f"{found.model}: active is {named(live_set(document))}, revision {document.epoch}.{document.revision}"
    ]
    if since:
        lines.append(f"since {_at(since)}, by {_by(since)}: {since.why}")
    else:
        lines.append("since when and by whom is no longer in the history")
    lines.append(f"a rollback goes to {named(back)}" if back else "nothing to roll back to")
    if kept := fallback_set(document):
        lines.append(f"kept ready is {named(kept)}: `rollback --to {kept[0]}`")
    return Text("\n".join(lines))


def gates_table(found: ModelReleases) -> Table:
    """What each gate said of each generation that has not been deleted."""
    table = _table("gates", ("generation", "gate", "outcome", "at", "what it said"))
    for one in found.releases:
        if one.state is not State.DELETED:
            for gate in one.gates:
                table.add_row(one.generation, gate.step, gate.outcome, gate.at or "", gate.words)
    return table


def history_table(found: ModelReleases, shown: int) -> Table:
    table = _table("last changes", ("at", "by", "why", "version", "generation"))
    for change in found.changes[:shown]:
        table.add_row(_at(change), _by(change), change.why, change.stable, change.generation or "none")
    return table


def show(found: ModelReleases, *, in_full: bool, history: int) -> None:
    parts: list[Text | Table] = [summary(found), releases_table(found)]
    if in_full:
        parts += [gates_table(found), history_table(found, history)]
    # A file or pipe has no width: as wide as the tables are.
    console = Console() if Console().is_terminal else Console(width=240)
    console.print(Group(*parts))
    if found.left_out:
        console.print(f"{found.left_out} older runs are not shown")


def _table(title: str, names: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right" if name in _RIGHT else "left")
    return table


def _rows(one: Release) -> str:
    if one.rows is None:
        return "–"
    return f"{one.rows:,}" + (f" + {one.deltas} delta(s)" if one.deltas else "")


def _age(one: Release, now_ms: int) -> str:
    if one.computed_at_ms is None:
        return "–"
    seconds = max(0, (now_ms - one.computed_at_ms) // 1000)
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def _at(change: Change | None) -> str:
    return datetime.strftime(change.at.astimezone(UTC), "%Y-%m-%d %H:%M:%SZ") if change else ""


def _by(change: Change) -> str:
    return change.by or "not recorded"
