"""What the newest hot set is worth, and what it was chosen from, as tables. Pure."""

from collections.abc import Sequence

from online.monitor import text
from online.monitor.hotset.tables import NO_REPORT
from online.monitor.tables import Cell, Column, Table
from online.planning.answer import number
from schemas.hotset_report import HotSetReport

_FIGURE = (Column("figure", "Figure"), Column("value", "Value"), Column("how", "What it is"))


def value_table(newest: HotSetReport | None) -> Table:
    """What is expected of the newest set, and what more room would buy."""
    if newest is None:
        return Table("value", "What it is worth", _FIGURE, [], NO_REPORT)
    saving, step, costs = newest.saving, newest.next_step, newest.costs
    hours = newest.refresh_s / 3600
    rows: list[Sequence[Cell]] = [
        ["Live time saved", f"{_seconds(saving.live_ms)} a day", f"at {costs.live_ms:g} ms a row; {costs.source}"],
        ["Scoring at night", f"{_seconds(saving.batch_ms)} a day", f"at {costs.batch_ms:g} ms a row"],
        ["Look-ups", f"{_seconds(saving.lookup_ms)} a day", f"of every request, at {costs.lookup_ms:g} ms"],
        ["Net", f"{_seconds(saving.net_ms)} a day", "the first less the other two"],
        [
            "Replicas saved",
            _replicas(newest),
            "in the busiest minute; not known without a profile",
        ],
        ["Money saved", money(newest), "a day, for these replicas; not known without a price"],
        [
            "A tenth more entities",
            f"{text.count(step.requests)} requests",
            f"{text.share(step.share)} more before the next night ({hours:g} h), by "
            f"{text.count(step.entities)} more entities and {text.number(step.bytes / 1e3)} kB",
        ],
        ["Bytes", f"{text.number(newest.chosen.bytes / 1e6)} MB", _room(newest)],
    ]
    if newest.peak is not None:
        peak = newest.peak
        rows.append(
            [
                "Busiest minute",
                f"{text.share(peak.miss_share)} missed",
                f"{peak.missed} of {peak.requests} requests, {text.moment(peak.at)} UTC, by the written set",
            ]
        )
    return Table("value", "What it is worth", _FIGURE, rows, "", "As the newest night expects it.")


def log_table(newest: HotSetReport | None) -> Table:
    """What the newest night read, and what it fitted."""
    if newest is None:
        return Table("log", "What it was chosen from", _FIGURE, [], NO_REPORT)
    log = newest.log
    rows: list[Sequence[Cell]] = [
        ["History", f"{text.moment(log.begin)} to {text.moment(newest.as_of)}", "UTC; the log that was looked at"],
        ["Rows counted", text.count(log.counted), f"of {text.count(log.read)} in {text.count(log.files)} files"],
        ["Not answered", text.count(log.not_answered), "refused or failed, or of no entity"],
        ["Outside", text.count(log.outside), "before the history or after its end"],
        *(
            [f"Set aside: {why}", text.count(rows), "rows that count nowhere"]
            for why, rows in log.set_aside.items()
        ),
        *(["File set aside", path, why] for path, why in log.files_set_aside.items()),
        ["Known entities", text.count(newest.known_entities), _asked(newest)],
        *_fit_rows(newest),
    ]
    return Table("log", "What it was chosen from", _FIGURE, rows, "", "From the newest night's report.")


def _seconds(ms: float) -> str:
    return f"{number(ms / 1e3, 3)} s"


def money(one: HotSetReport) -> str:
    """What is saved a day, as the report has it."""
    saved = one.saving.money_a_day
    return text.NONE if saved is None else f"{saved:,.2f} {one.saving.currency or ''}".rstrip()


def _asked(one: HotSetReport) -> str:
    return f"of which {text.count(one.asked_entities)} were asked for"


def _fit_rows(one: HotSetReport) -> list[Sequence[Cell]]:
    fit, chosen = one.fit, one.chosen
    season = f", season of {fit.season_days:g} days" if fit.season_days else ""
    eviction = fit.eviction or "eviction not fitted"
    return [
        ["Half-life", f"{fit.half_life_days:g} days{season}", _fitted(one)],
        ["Left for written-back results", text.share(fit.written_back_share), f"of the slots; {eviction}"],
        ["Mandatory, blocked", f"{text.count(chosen.mandatory)}, {text.count(chosen.blocked)}", _unknown(one)],
    ]


def _fitted(one: HotSetReport) -> str:
    return "fitted on the past" if one.fit.is_fitted else (one.fit.why_not or "not fitted")


def _replicas(one: HotSetReport) -> str:
    return text.NONE if one.saving.replicas is None else number(one.saving.replicas, 3)


def _room(one: HotSetReport) -> str:
    budget = one.budget
    limit = (
        f"at most {text.share(budget.max_fraction)} of the known entities"
        if budget.bytes is None
        else f"budget {text.number(budget.bytes / 1e6)} MB"
    )
    return f"in {budget.resident_generations} resident generations; {limit}; {text.count(budget.slots)} slots"


def _unknown(one: HotSetReport) -> str:
    chosen = one.chosen
    if not chosen.mandatory_unknown:
        return "entities of the lists"
    named = ", ".join(chosen.mandatory_unknown_named)
    return f"entities of the lists; {text.count(chosen.mandatory_unknown)} mandatory without features: {named}"
