"""Contenders take turns under the same load, so that a machine that slows down slows all of them."""

import logging
import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.bench.hits.contenders import Contender
from tests.bench.hits.measure import Machine, Turn, wait_idle
from tests.bench.hits.plan import CLOSED, Load

log = logging.getLogger(__name__)

Round = dict[str, Turn]


def run_rounds(machine: Machine, by_name: Mapping[str, Contender], load: Load, seed: int) -> list[Round]:
    """Every other round in the opposite order. The same entities at the same times for all of a round."""
    rounds = []
    for place in range(load.rounds):
        names = load.contenders + (load.once if place == 0 else ())
        order = names if place % 2 == 0 else names[::-1]
        rounds.append({name: one_turn(machine, by_name[name], load, seed + place) for name in order})
    return rounds


def one_turn(machine: Machine, contender: Contender, load: Load, seed: int) -> Turn:
    measure = machine.closed if load.kind == CLOSED else machine.open
    turn = measure(contender, load.size, load.warm_s, load.measured_s, seed)
    log.info(
        "%s: %s: %.0f/s, p50 %.2f ms, p99 %.2f ms, %.0f µs of CPU an answer",
        *(load.part, contender.name, turn.good_per_s, turn.latency.p50_ms, turn.latency.p99_ms, turn.cpu_us),
    )
    if turn.errors:
        wait_idle(contender)  # what it was not done with must not slow the next
    return turn


def median(rounds: Sequence[Round], name: str, figure: Callable[[Turn], float]) -> float:
    """Of the rounds in which the contender had a turn; NaN where there is none."""
    values = [figure(one[name]) for one in rounds if name in one]
    return statistics.median(values) if values else float("nan")


def median_ratio(rounds: Sequence[Round], name: str, other: str, figure: Callable[[Turn], float]) -> float:
    """Of the ratios within each round: what slowed a whole round cancels out."""
    ratios = [_ratio(figure(one[name]), figure(one[other])) for one in rounds if name in one and other in one]
    return statistics.median(ratios) if ratios else float("nan")


def _ratio(value: float, other: float) -> float:
    return value / other if other else float("nan")
