"""The Plan page's tables, from the planner's document: the same numbers as its `--json`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from online.monitor import text
from online.monitor.tables import Cell, Column, Kind, Table
from online.planning.answer import number
from online.planning.latency import Latency
from online.planning.prices import HOURS_PER_MONTH
from online.planning.queues import Provision

Document = Mapping[str, Any]
_REFUSED = "Correct the fields above first."
_FLEETS = (
    ("scenario", "Answered first by", Kind.TEXT),
    ("live_per_s", "Live a second", Kind.NUMBER),
    ("by_rate", "Replicas by rate", Kind.COUNT),
    ("replicas", "Replicas", Kind.COUNT),
    ("p50_ms", "p50 ms", Kind.MS),
    ("p99_ms", "p99 ms", Kind.MS),
    ("p99_half_width_ms", "± ms", Kind.MS),
    ("is_in_time", "In time", Kind.TEXT),
    ("all_mean_ms", "All, mean ms", Kind.MS),
    ("load", "Load", Kind.SHARE),
    ("busy_share", "Busy", Kind.SHARE),
    ("cost_per_month", "A month", Kind.NUMBER),
    ("cost_per_million", "A million", Kind.MS),
)
_IN_BUDGET = ("is_in_budget", "In budget", Kind.TEXT)
_COLD = (
    Column("scenario", "Sized with"),
    Column("replicas", "Replicas", Kind.COUNT),
    Column("cold_per_s", "Live a second", Kind.NUMBER),
    Column("cold_load", "Of capacity", Kind.SHARE),
    Column("cold_in_time_share", "In time, at most", Kind.SHARE),
    Column("cold_replicas", "Replicas it would take", Kind.COUNT),
)
_FIGURE = (Column("figure", "Figure"), Column("value", "Value"), Column("how", "How it comes about"))
_CURVE = (
    Column("load", "Load", Kind.SHARE),
    Column("rate_per_s", "Requests a second", Kind.NUMBER),
    Column("textbook_ms", "Textbook ms", Kind.MS),
    Column("bound_ms", "Inoue's bound ms", Kind.MS),
    Column("simulated_ms", "Simulated ms", Kind.MS),
    Column("half_width_ms", "± ms", Kind.MS),
    Column("p99_ms", "Simulated p99 ms", Kind.MS),
)


def fleets_table(document: Document | None, currency: str) -> Table:
    shown = [*_FLEETS, _IN_BUDGET] if document and "budget_per_month" in document else _FLEETS
    columns = [
        Column(key, f"{label}, {currency}" if key.startswith("cost_") else label, kind)
        for key, label, kind in shown
    ]
    rows = [[_cell(fleet[key]) for key, *_ in shown] for fleet in document["fleets"]] if document else []
    note = (
        "p50 and p99 of live answers, simulated at the peak's rate, spread at random over the replicas; ± is how "
        "far chance may have moved p99 (95 %). Replicas "
        "by rate: the peak over what one is given; more where p99 needs them. Load: of the batch it is sized "
        "by. Busy: share of the time that it works. A million: of all requests."
    )
    return Table("fleets", "Fleets for the busiest minute", columns, rows, _REFUSED, note)


def cold_table(document: Document | None) -> Table:
    rows: list[Sequence[Cell]] = [
        [
            fleet["scenario"],
            fleet["replicas"],
            cold["rate_per_s"],
            cold["load"],
            cold["in_time_share"],
            cold["replicas"],
        ]
        for fleet in (document["fleets"] if document else [])
        if (cold := fleet["cold"]) is not None
    ]
    note = (
        "What a fleet that was sized with hot set and caches does when they are empty. In time is an upper bound: "
        "the live tier refuses by a prediction with a margin."
    )
    empty = (
        "Say above what hot set or caches answer: without them there is nothing to lose." if document else _REFUSED
    )
    return Table("cold_cache", "With a cold cache", _COLD, rows, empty, note)


def steps_table(document: Document | None, utilisation: float | None, currency: str) -> Table:
    """How the numbers come about, in order."""
    if document is None or utilisation is None:
        return Table("steps", "How it comes about", _FIGURE, [], _REFUSED)
    batch, fleets = document["batch"], document["fleets"]
    goal = document["p99_goal_ms"]
    first, last = fleets[0], fleets[-1]
    rows: list[Sequence[Cell]] = [
        ["A batch may take", f"{number(batch['most_ms'])} ms", _half(document)],
        [
            "Largest batch in that time",
            f"{batch['fitting_rows']} rows",
            "T(b) = τ0 + αb, at most the largest batch",
        ],
        ["Knee", f"{batch['knee_rows']} rows", "from there, doubling a batch gains under 10 % throughput"],
        [
            "Batch to size by",
            f"{batch['rows']} rows, {number(batch['batch_ms'])} ms",
            f"the smaller of both: {number(batch['rows_per_s'])} rows/s",
        ],
        [
            "An idle device may wait",
            f"{number(batch['queue_delay_ms'])} ms",
            "what the budget leaves beside two batches",
        ],
        [
            "A replica is given",
            f"{number(batch['per_replica_per_s'])} rows/s",
            f"{utilisation:.0%} of its throughput",
        ],
        *(_replicas(fleet, batch, goal) for fleet in fleets),
        [
            "Money",
            f"{number(last['cost_per_month'])} {currency} a month",
            f"{last['replicas']} × {document['price_per_hour']:g} {currency} × {HOURS_PER_MONTH} h; all live "
            f"{number(first['cost_per_month'])}. Redis and the API are not counted",
        ],
        *_weights(document),
        [
            "A million requests",
            f"{number(last['cost_per_million'])} {currency}",
            f"that over {document['requests_per_month']:,.0f} requests a month",
        ],
    ]
    return Table("steps", "How it comes about", _FIGURE, rows, "", "In the order in which the planner works.")


def queues_table(steps: Sequence[Provision], currency: str) -> Table:
    columns = [
        Column("replicas", "Replicas", Kind.COUNT),
        Column("busy", "Busy", Kind.SHARE),
        Column("mm1_ms", "M/M/1 mean ms", Kind.MS),
        Column("md1_ms", "M/D/1 mean ms", Kind.MS),
        Column("cost_per_month", f"A month, {currency}", Kind.NUMBER),
        Column("over_fewest_per_month", f"Over the fewest, {currency}", Kind.NUMBER),
    ]
    rows = [
        [
            one.replicas,
            one.mm1.utilisation,
            one.mm1.latency_ms,
            one.md1.latency_ms,
            one.cost_per_month,
            one.over_fewest_per_month,
        ]
        for one in steps
    ]
    note = (
        "All live, each replica taking one request at a time, from the fewest that keep up. M/M/1 takes service "
        "times for exponential; those of a model hardly vary, which is M/D/1. Time outside the device is left out."
    )
    return Table("queues", "Without batching, for comparison", columns, rows, _REFUSED, note)


def curve_table(points: Sequence[Latency]) -> Table:
    rows: list[Sequence[Cell]] = [
        [
            one.utilisation,
            one.rate_per_s,
            _cell(one.textbook_mean_ms),
            _cell(one.bound_mean_ms),
            _cell(one.simulated.mean_ms.value),
            _cell(one.simulated.mean_ms.half_width),
            _cell(one.simulated.p99_ms.value),
        ]
        for one in points
    ]
    return Table("curve", "Latency against load", _CURVE, rows, _REFUSED, curve_note(points))


def curve_note(points: Sequence[Latency]) -> str:
    """What the three curves are, and how far chance may have moved the simulated one."""
    if not points:
        return ""
    off = [one.simulated.mean_ms.half_width / one.simulated.mean_ms.value for one in points]
    worst = max(range(len(points)), key=lambda place: off[place])
    return (
        "Mean latency of one replica, without what is spent outside of it; load as a share of what full batches "
        "give. Textbook: half a batch of waiting and one batch, all of the mean size. Bound: Inoue, arXiv "
        "1912.06322, for a device without a cap. Simulated: with the cap; short runs, so ± (95 %) is up to "
        f"{off[worst]:.0%} of it, at {points[worst].utilisation:.0%} load."
    )


def _half(document: Document) -> str:
    row_ms = document["outside_row_ms"]
    rest = f", with half of the {row_ms:g} ms that each of its rows takes outside" if row_ms else ""
    return (
        f"half of the {document['p99_goal_ms']:g} ms budget less {document['outside_ms']:g} ms outside: a row may "
        f"just miss a batch{rest}"
    )


def _weights(document: Document) -> list[Sequence[Cell]]:
    share = document["weights_share_of_memory"]
    return (
        []
        if share is None
        else [["Weights", "fit" if share <= 1 else "do not fit", f"{share:.0%} of a card's memory"]]
    )


def _replicas(fleet: Document, batch: Document, goal_ms: float) -> Sequence[Cell]:
    by_rate, replicas = fleet["by_rate"], fleet["replicas"]
    given = number(batch["per_replica_per_s"])
    how = f"{number(fleet['live_per_s'])} live requests a second / {given}, rounded up"
    if replicas > by_rate:
        how += f" to {by_rate}; more until the simulated p99 is within {goal_ms:g} ms"
    if fleet["is_in_time"] is False:
        how += f"; no number of replicas brings p99 within {goal_ms:g} ms"
    return [f"Replicas, {fleet['scenario']}", text.count(replicas), how]


def _cell(value: object) -> Cell:
    """A document's value; NaN, of what is not known, is nothing."""
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return value if value == value else None
        case int() | str():
            return value
    return None
