"""Plan: what a fleet would need and cost, for numbers that the reader may change, as the planner computes it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from typing import cast

from online.monitor import text
from online.monitor.charts import Chart, compact, nice_ceiling
from online.monitor.curves import line_chart
from online.monitor.pages import Page, Report
from online.monitor.plan import tables as made
from online.monitor.plan.fields import FIELDS, Entered, enter, written
from online.monitor.plan.prefill import Profiled, prefill
from online.monitor.sources import Sources
from online.monitor.windows import Window
from online.planning.answer import Answer, plain
from online.planning.checks import OutOfRange
from online.planning.latency import CURVE_LOADS, Latency, latency_curve
from online.planning.outside import NOTHING, Outside
from online.planning.prices import SECONDS_PER_MONTH, month_of
from online.planning.profile_file import Profile
from online.planning.profile_notes import profile_notes
from online.planning.queues import Provision, provisions
from online.planning.replica import Goal, Replica
from online.planning.size_question import SizeQuestion, size_answer
from online.planning.weights import Weights
from schemas.capacity import BatchTime

COMMAND = ".venv/bin/python -m online.planning size"
# Whoever moves a slider back and forth asks the same again; an answer is some kilobytes.
_KEPT = 64
# Points that the scale of the chart goes by.
_SCALED_BY = 18
_SPARE = 3


def build(sources: Sources, model: str, window: Window) -> Report:
    """With what is measured."""
    return ask(sources, model, window, {})


def ask(sources: Sources, model: str, window: Window, query: Mapping[str, str]) -> Report:
    """With what the query says. Nonsense is told by its field, in `refused` and beside it."""
    before = prefill(sources, model, window)
    entered = enter(query, before.given)
    # Whoever changes the line plans with that line, not with the profile.
    profiled = before.profile if not entered.own & {"tau0_ms", "alpha_ms"} else None
    found = _planned(entered, profiled.profile if profiled else None)
    document, points, errors = found.document, found.points, found.errors
    currency = sources.settings.currency
    tables = [
        made.fleets_table(document, currency),
        made.cold_table(document),
        made.steps_table(document, entered.values["utilisation"], currency),
        made.queues_table(found.queues, currency),
        made.curve_table(points),
    ]
    own = {one.name: entered.texts[one.name] for one in FIELDS}
    command = _command(entered, profiled)
    facts = {
        "plan": document,
        "command": command,
        "fields": dict(entered.values),
        "given": {name: {"value": one.value, "source": one.source} for name, one in before.given.items()},
    }
    view = {
        "fields": FIELDS,
        "given": before.given,
        "problems": before.problems,
        "entered": entered,
        "errors": errors,
        "general": [told for name, told in errors.items() if name not in own],
        "own": own,
        "written": written,
        "document": document,
        "verdict": _verdict(document, currency),
        "command": command,
        "basis": found.basis,
        "currency": currency,
        "chart_of_latency": _chart(points, document),
    }
    return Report(facts, tables, view, "; ".join(errors.values()))


@dataclass(frozen=True)
class _Planned:
    """What the planner says, or in `errors` what is wrong, by field.

    `basis`: what it rests on, in words, and whether that is a warning.
    """

    document: made.Document | None = None
    points: Sequence[Latency] = ()
    queues: Sequence[Provision] = ()
    basis: Sequence[tuple[str, bool]] = ()
    errors: Mapping[str, str] = field(default_factory=dict)


def _planned(entered: Entered, profile: Profile | None) -> _Planned:
    if entered.errors:
        return _Planned(errors=entered.errors)
    try:
        question = _question(entered.values, profile)
        replica, weights = question.replica, question.weights
        document = cast(made.Document, plain(_size(question).document))
        # Where each replica answered one request after the other, all live.
        month = month_of(replica.price_per_hour)
        queues = provisions(question.peak_per_s, replica.batch_ms(1), month, _SPARE)
        curve = _curve(replace(replica, price_per_hour=0.0, outside=NOTHING))
        share = weights.share_of_memory
        told = [
            *((note, profile is not None and not profile.fit.is_linear) for note in profile_notes(profile)),
            *((note, share is not None and share > 1) for note in weights.notes),
        ]
        return _Planned(document, curve, queues, told)
    except OutOfRange as error:
        return _Planned(errors={error.field: str(error)})


def _question(values: Mapping[str, float | None], profile: Profile | None) -> SizeQuestion:
    """Raises OutOfRange."""
    needed = {name: value for name, value in values.items() if value is not None}
    price_per_hour, most = needed["price_per_hour"], int(needed["max_batch_rows"])
    outside = Outside(needed["outside_ms"], needed["outside_row_ms"])
    if profile is not None:
        replica = profile.replica(price_per_hour, outside, most)
    else:
        line = BatchTime(needed["tau0_ms"], needed["alpha_ms"])
        replica = Replica(line, most, price_per_hour, None, outside)
    return SizeQuestion(
        replica=replica,
        goal=Goal(needed["p99_ms"], needed["utilisation"], values["budget_per_month"]),
        peak_per_s=needed["peak_per_s"],
        requests_per_month=_month(values),
        hit_share=values["hit_share"],
        cache_share=values["cache_share"],
        hit_ms=values["hit_ms"],
        weights=Weights(values["weight_gb"], values["memory_gb"]),
        profile=profile,
    )


@lru_cache(_KEPT)
def _size(question: SizeQuestion) -> Answer:
    return size_answer(question)


@lru_cache(_KEPT)
def _curve(replica: Replica) -> list[Latency]:
    """Of queue and device, so whatever it costs."""
    return latency_curve(replica)


def _month(values: Mapping[str, float | None]) -> float | None:
    """Requests a month, so rounded that the command line has the same."""
    peak, share = values["peak_per_s"], values["mean_share"]
    return None if peak is None or share is None else float(written(peak * share * SECONDS_PER_MONTH))


def _command(entered: Entered, profiled: Profiled | None) -> str:
    """The planner's command line that gives the same numbers."""
    options = {one.option: entered.values[one.name] for one in FIELDS if one.option}
    options["--requests-per-month"] = _month(entered.values)
    device = ""
    if profiled is not None:
        del options["--tau0"], options["--alpha"]
        device = f" --profile {shlex.quote(profiled.path)}"
    words = [f"{option} {written(value)}" for option, value in options.items() if value is not None]
    return f"{COMMAND}{device} {' '.join(words)}"


def _verdict(document: made.Document | None, currency: str) -> list[str]:
    if document is None:
        return []
    first, last = document["fleets"][0], document["fleets"][-1]
    told = []
    if last is not first:
        less = first["cost_per_month"] - last["cost_per_month"]
        told.append(
            f"With {last['scenario']}: {last['replicas']} of {first['replicas']} replicas, "
            f"{text.number(less)} {currency} a month less."
        )
    if not all(fleet["is_in_time"] for fleet in document["fleets"]):
        told.append(f"A p99 of {document['p99_goal_ms']:g} ms is not to be had with any number of replicas.")
    return told


def _chart(points: Sequence[Latency], document: made.Document | None) -> Chart:
    """Lines through the middles of steps, one a load; the fleets' replicas are marked at theirs."""
    steps = len(CURVE_LOADS)
    series = {
        "textbook": ("Textbook", [one.textbook_mean_ms for one in points]),
        "simulated": ("Simulated", [one.simulated.mean_ms.value for one in points]),
        # Last and dashed: the simulation nearly reaches it.
        "bound": ("Inoue's bound", [one.bound_mean_ms for one in points]),
    }
    # What the last loads take would press the rest to the bottom.
    top = nice_ceiling(max((one.simulated.mean_ms.value for one in points[:_SCALED_BY]), default=1.0))
    lines = {
        key: (label, [(place + 0.5, value if isfinite(value) else None) for place, value in enumerate(values)])
        for key, (label, values) in series.items()
    }
    return line_chart(
        "latency",
        "Mean latency of a replica against its load",
        lines,
        steps=steps,
        top=top,
        y_labels=[f"{compact(top * part / 4)} ms" for part in (4, 3, 2, 1, 0)],
        x_labels=["0 %", "25 %", "50 %", "75 %", "100 %"],
        table="curve",
        marks=_marks(points, document),
    )


def _marks(points: Sequence[Latency], document: made.Document | None) -> dict[str, tuple[str, float]]:
    """Where each fleet's replicas are at the peak."""
    if document is None or not points:
        return {}
    full_per_s = points[0].rate_per_s / points[0].utilisation
    found = {}
    for place, fleet in enumerate(document["fleets"]):
        if fleet["replicas"]:
            load = fleet["live_per_s"] / fleet["replicas"] / full_per_s
            label = f"{fleet['scenario'].capitalize()}: {text.share(load)}"
            found[f"fleet-{place}"] = (label, len(points) * load)
    return found


PAGE = Page("plan", "Plan", "plan.html", build, ask)
