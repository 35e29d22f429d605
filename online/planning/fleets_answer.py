"""Fleets as a document and as tables, for `size`, `plan` and the site. Pure."""

from collections.abc import Sequence

from online.planning.answer import Answer, Sheet, dollars, facts, milliseconds, number, percent, yes
from online.planning.prices import HOURS_PER_MONTH
from online.planning.replica import Batch, Goal, Replica
from online.planning.sizing import Fleet, affordable_replicas
from online.planning.traffic import Traffic


def fleets_answer(
    replica: Replica, traffic: Traffic, batch: Batch, fleets: Sequence[Fleet], goal: Goal, notes: Sequence[str]
) -> Answer:
    budget = goal.budget_per_month
    document: dict[str, object] = {
        "p99_goal_ms": goal.p99_ms,
        "price_per_hour": replica.price_per_hour,
        "peak_per_s": traffic.peak_per_s,
        "requests_per_month": traffic.requests_per_month,
        "outside_ms": replica.outside.fixed_ms,
        "outside_row_ms": replica.outside.row_ms,
        "batch": {field: getattr(batch, field) for field in batch.__dataclass_fields__},
        "fleets": [_document(fleet) for fleet in fleets],
    }
    if budget is not None:
        document["budget_per_month"] = budget
        document["affordable_replicas"] = _affordable(replica, budget)
    sheets = [_batch(batch, goal), _fleets(fleets, budget is not None), *_cold(fleets)]
    return Answer(document, sheets, [*_verdict(fleets, goal), *notes, *_reading(replica, goal)])


def _document(fleet: Fleet) -> dict[str, object]:
    skipped = ("scenario", "cold")
    cold = fleet.cold
    return {
        "scenario": fleet.scenario.name,
        "live_per_s": fleet.scenario.live_per_s,
        **{field: getattr(fleet, field) for field in fleet.__dataclass_fields__ if field not in skipped},
        "cold": None if cold is None else {field: getattr(cold, field) for field in cold.__dataclass_fields__},
    }


def _batch(batch: Batch, goal: Goal) -> Sheet:
    pairs = [
        (
            "a batch may take",
            f"{number(batch.most_ms, 3)} ms: half of what the goal of {goal.p99_ms:g} ms leaves for it",
        ),
        ("largest batch in that time", f"{batch.fitting_rows} rows"),
        ("knee", f"{batch.knee_rows} rows"),
        (
            "batch to size by",
            f"{batch.rows} rows, {number(batch.batch_ms, 3)} ms, {number(batch.rows_per_s)} rows/s",
        ),
        ("an idle device may wait", f"at most {number(batch.queue_delay_ms, 3)} ms for company"),
        ("a replica is given", f"{number(batch.per_replica_per_s)} rows/s, {goal.utilisation:.0%} of it"),
    ]
    return facts("The batch", pairs)


def _fleets(fleets: Sequence[Fleet], has_budget: bool) -> Sheet:
    head = (
        "answered first by", "live/s", "replicas", "p50, ms", "p99, ms", "in time", "all, mean ms", "load",
        "a month", "a million", "in budget",
    )  # fmt: skip
    rows = [
        (
            "nothing: all live" if fleet.scenario.cold_per_s is None else fleet.scenario.name,
            number(fleet.scenario.live_per_s),
            f"{fleet.replicas}"
            if fleet.replicas == fleet.by_rate
            else f"{fleet.replicas} (rate: {fleet.by_rate})",
            milliseconds(fleet.p50_ms),
            milliseconds(fleet.p99_ms),
            yes(fleet.is_in_time),
            milliseconds(fleet.all_mean_ms),
            percent(fleet.load),
            dollars(fleet.cost_per_month),
            dollars(fleet.cost_per_million),
            yes(fleet.is_in_budget),
        )
        for fleet in fleets
    ]
    shown = len(head) if has_budget else len(head) - 1
    return Sheet("Fleets for the busiest minute", head[:shown], [row[:shown] for row in rows])


def _cold(fleets: Sequence[Fleet]) -> list[Sheet]:
    rows = [
        (
            f"{fleet.scenario.name}: {fleet.replicas}",
            number(cold.rate_per_s),
            percent(cold.load),
            percent(cold.in_time_share),
            str(cold.replicas),
        )
        for fleet in fleets
        if (cold := fleet.cold) is not None
    ]
    head = ("replicas sized with", "live/s", "of capacity", "answered in time, at most", "replicas it would take")
    return [Sheet("When every store is empty", head, rows)] if rows else []


def _verdict(fleets: Sequence[Fleet], goal: Goal) -> list[str]:
    """What the stores save, and whether the goal can be met."""
    first, last = fleets[0], fleets[-1]
    notes = []
    if last is not first:
        less = dollars(first.cost_per_month - last.cost_per_month)
        notes.append(
            f"With {last.scenario.name}: {last.replicas} of {first.replicas} replicas, {less} a month less."
        )
    if not all(fleet.is_in_time for fleet in fleets):
        notes.append(f"A p99 of {goal.p99_ms:g} ms is not to be had with any number of replicas.")
    return notes


def _reading(replica: Replica, goal: Goal) -> list[str]:
    """How the tables are meant."""
    notes = [
        "p50 and p99 are of live answers, simulated at the peak's rate, spread at random over the replicas.",
        "Load is of the batch sized by; a device that takes what waits is busy long before it is full.",
        f"Money: ${number(replica.price_per_hour)} an hour and replica, {HOURS_PER_MONTH} h a month; "
        "Redis and the API are not counted.",
    ]
    if (budget := goal.budget_per_month) is not None and replica.price_per_hour:
        paid = _affordable(replica, budget)
        notes.append(f"The budget of {dollars(budget)} pays for {paid} replica{'' if paid == 1 else 's'}.")
    return notes


def _affordable(replica: Replica, budget: float) -> int | None:
    return affordable_replicas(replica.price_per_hour, budget) if replica.price_per_hour else None
