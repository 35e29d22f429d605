"""Parity of precomputed against live: what became of hits that were computed again. Tables, a chart; pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from online.monitor import charts
from online.monitor.quality.parity_log import Compared
from online.monitor.tables import Cell, Column, Table
from online.monitor.tables import Kind as Shown
from online.monitor.windows import Window
from schemas.parity import ALARMING, Kind, Skip

MEANING = {
    Kind.EQUAL: "live gives the same, to the last bit",
    Kind.NUMERIC: "within the manifest's tolerance: another device or batch",
    Kind.NUMERIC_OVER: "beyond the tolerance, on the same features and bundle: alarm",
    Kind.FEATURE_DRIFT: "beyond it, and the feature table is newer than the answer, or was changed",
    Kind.WRONG_MODEL: "beyond it, and the generation was computed by another bundle: alarm",
}
WHY_SKIPPED = {
    Skip.BEHIND: "too many waited to be compared",
    Skip.OVER_CAPACITY: "the live tier had no room for it",
    Skip.LIVE_UNAVAILABLE: "no replica has the version warm",
    Skip.NOT_ROUTED: "the version was taken out of service meanwhile",
    Skip.NO_FEATURES: "the feature table has none of the entity that the model takes",
    Skip.FAILED: "the model or the comparison failed; the API's log says why",
}
_NOTE = (
    "The API computes a share of its precomputed answers again (API_PARITY_SHARE), after they were answered and"
    " with the lowest priority. Of its Parquet files, and of what the workers have not yet turned into one."
)
_NONE_YET = (
    "No hit was computed again in this time range. The API does so for API_PARITY_SHARE of its precomputed"
    " answers, as far as API_LOG_SAMPLE takes them, while a replica of the live tier is warm."
)


@dataclass(frozen=True, slots=True)
class Parity:
    """Hits of a window by kind, and those that were not compared by reason."""

    kinds: Counter[str]
    skipped: Counter[str]

    @property
    def compared(self) -> int:
        return self.kinds.total()

    @property
    def alarms(self) -> int:
        return sum(self.kinds[kind.value] for kind in ALARMING)


def parity_of(found: Compared) -> Parity:
    kinds: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for _, kind, why, hits in found.counts:
        if kind is not None:
            kinds[kind] += hits
        elif why is not None:
            skipped[why] += hits
    return Parity(kinds, skipped)


def parity_table(parity: Parity) -> Table:
    """A row a kind, those without hits among them: that there are none is what one wants to know."""
    columns = [
        Column("kind", "Kind"),
        Column("hits", "Hits", Shown.COUNT),
        Column("share", "Share", Shown.SHARE),
        Column("meaning", "Meaning"),
    ]
    total = parity.compared
    known = {kind.value: words for kind, words in MEANING.items()}
    names = [*known, *sorted(parity.kinds.keys() - known.keys())]
    rows: list[Sequence[Cell]] = [
        [name, parity.kinds[name], parity.kinds[name] / total, known.get(name, "")] for name in names if total
    ]
    return Table("parity", "Precomputed against live", columns, rows, _NONE_YET, _NOTE)


def skipped_table(parity: Parity) -> Table:
    columns = [Column("reason", "Reason"), Column("hits", "Hits", Shown.COUNT), Column("meaning", "Meaning")]
    known = {reason.value: words for reason, words in WHY_SKIPPED.items()}
    rows: list[Sequence[Cell]] = [
        [reason, hits, known.get(reason, "")] for reason, hits in parity.skipped.most_common()
    ]
    return Table("parity_skipped", "Not compared", columns, rows, "Every hit of the sample was compared.", "")


def over_time_table(found: Compared, window: Window) -> Table:
    columns = [
        Column("from", "From (UTC)", Shown.TIME),
        *(Column(kind.value, _said(kind), Shown.COUNT) for kind in Kind),
        Column("requests", "All", Shown.COUNT),
    ]
    steps = _by_step(found, window)
    rows: list[Sequence[Cell]] = []
    for step in range(window.steps):
        counts = [steps[kind][step] for kind in Kind]
        rows.append([window.step_start(step), *counts, sum(counts)])
    has_any = any(kind is not None for _, kind, _, _ in found.counts)
    title = "Hits computed again over time"
    return Table("parity_over_time", title, columns, rows if has_any else [], _NONE_YET, _NOTE)


def parity_chart(found: Compared, window: Window) -> charts.Chart:
    steps = _by_step(found, window)
    series = {kind.value: (_said(kind), steps[kind]) for kind in Kind}
    title = "Hits computed again, by kind"
    return charts.stacked_counts("parity", title, series, window.tick_labels(), "parity_over_time")


def differences_table(found: Compared) -> Table:
    columns = [
        Column("time", "Time (UTC)", Shown.TIME),
        Column("entity", "Entity"),
        Column("kind", "Kind"),
        Column("tolerances", "Times the tolerance", Shown.NUMBER),
        Column("output", "Worst output"),
        Column("version", "Version"),
        Column("generation", "Generation"),
        Column("request_id", "Request"),
    ]
    rows = [[_cell(row[column.key]) for column in columns] for row in found.differences]
    empty = "No compared hit differed in this time range."
    note = (
        "The newest. How far the worst output was off, as a multiple of what the manifest allows; values are not"
    )
    return Table("parity_differences", "Hits that differed", columns, rows, empty, f"{note} logged.")


def _cell(value: object) -> Cell:
    """Infinity, of another label, is said in words."""
    if isinstance(value, float) and value == float("inf"):
        return "another label"
    return value  # type: ignore[return-value]  # plain values of the log's schema


def _by_step(found: Compared, window: Window) -> dict[Kind, list[int]]:
    steps = {kind: [0] * window.steps for kind in Kind}
    known = {kind.value: kind for kind in Kind}
    for step, name, _, hits in found.counts:
        kind = known.get(name or "")
        if kind is not None:
            steps[kind][step] += hits
    return steps


def _said(kind: Kind) -> str:
    return kind.value.replace("_", " ").capitalize()
