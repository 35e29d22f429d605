"""`strategy`: replicas, a bigger card, quantisation, pipeline or tensor parallel, beside each other."""

import argparse

from online.planning.answer import Answer, Sheet, dollars, milliseconds, number, percent, yes
from online.planning.commands.options import (
    add_device,
    add_goal,
    add_outside,
    add_price,
    example,
    goal_of,
    profile_of,
    replica_of,
)
from online.planning.strategy import Question, Way, advise

NAME, HELP = "strategy", "which way to more: a table for your numbers, and a recommendation with its reasons"
EPILOG = example("strategy --tau0 6 --alpha 1.2 --rate-per-s 2000 --p99 50ms --weight-gb 20 --memory-gb 16")

_NUMBERS = (
    ("cards", int, "N", "that parallelism splits one copy over"),
    ("layers", int, "N", "of the model"),
    ("row_kb", float, "KB", "activations of a row between two layers"),
    ("link_gb_s", float, "GB/S", "between cards; PCIe 3 x16 has 12, NVLink 300 and more"),
    ("link_us", float, "US", "of a message between cards"),
    ("quantised_share", float, "SHARE", "bytes of a weight after over before"),
    ("bigger_speed", float, "X", "of the bigger card, over this one's"),
    ("bigger_memory_gb", float, "GB", "of the bigger card"),
    ("bigger_price_per_hour", float, "$", "of the bigger card"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument("--rate-per-s", type=float, required=True, metavar="R", help="live requests at the peak")
    add_goal(parser)
    add_outside(parser)
    add_price(parser)
    parser.add_argument("--weight-gb", type=float, required=True, metavar="GB", help="of the model")
    parser.add_argument("--memory-gb", type=float, required=True, metavar="GB", help="of a card")
    for name, kind, metavar, text in _NUMBERS:
        default = Question.__dataclass_fields__[name].default
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(
            option, type=kind, default=default, metavar=metavar, help=f"{text}; default {default:g}"
        )


def answer(arguments: argparse.Namespace) -> Answer:
    question = Question(
        replica=replica_of(arguments, profile_of(arguments)),
        rate_per_s=arguments.rate_per_s,
        goal=goal_of(arguments),
        weight_gb=arguments.weight_gb,
        memory_gb=arguments.memory_gb,
        **{name: getattr(arguments, name) for name, *_ in _NUMBERS},
    )
    found = advise(question)
    head: tuple[str, ...] = (
        "way", "fits", "T(1), ms", "p50, ms", "p99, ms", "in time", "rows/s a copy", "copies × cards", "a month",
        "one card's failure takes",
    )  # fmt: skip
    best = found.best.name if found.best else None
    document: dict[str, object] = {
        "ways": [_document(way) for way in found.ways],
        "recommended": best,
        "why": found.why,
    }
    notes = [found.why[:1].upper() + found.why[1:]]
    notes += [f"{way.name}: {way.rule}." for way in found.ways]
    notes.append("Splits and gains are the best that can be had: measure the winner before buying it.")
    has_budget = question.goal.budget_per_month is not None
    rows = [_row(way, way.name == best, has_budget) for way in found.ways]
    if has_budget:
        head = (*head, "in budget")
    return Answer(document, [Sheet(f"{arguments.rate_per_s:g} requests/s", head, rows)], notes)


def _row(way: Way, is_best: bool, has_budget: bool) -> tuple[str, ...]:
    each = way.cards // way.groups if way.groups else way.lost_cards
    return (
        f"{way.name}, recommended" if is_best else way.name,
        f"{yes(way.fits)}, {percent(way.memory_share)}",
        milliseconds(way.batch_one_ms),
        milliseconds(way.p50_ms),
        milliseconds(way.p99_ms),
        yes(way.is_in_time),
        number(way.rows_per_s),
        f"{way.groups} × {each}",
        dollars(way.cost_per_month),
        f"{way.lost_cards} of {way.cards} cards, {percent(way.lost_share)}",
        *([yes(way.is_in_budget)] if has_budget else []),
    )


def _document(way: Way) -> dict[str, object]:
    return {**{field: getattr(way, field) for field in way.__dataclass_fields__}, "fits": way.fits}
