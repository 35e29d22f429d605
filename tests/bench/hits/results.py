"""All that one run of the benchmark found, and the line of JSON that says it."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.bench.hits.asking import BATCH_ENTITIES
from tests.bench.hits.contenders import BATCH, FLOOR, FOLD_S, HOTSET, HOTSET_L1, OURS, PLAIN, Stack
from tests.bench.hits.measure import Turn
from tests.bench.hits.memory import SMALL, Footprint
from tests.bench.hits.plan import BATCHES, CLOSED, CONNECTIONS, OPEN, RATES
from tests.bench.hits.rounds import Round, median, median_ratio
from tests.bench.json_line import json_line

_ANSWERS = re.compile(r'^hotset_answers_total\{[^}]*model="known"[^}]*\} (\S+)$', re.MULTILINE)
_L1_HITS = re.compile(r'^hotset_events_total\{event="hits",part="l1"\} (\S+)$', re.MULTILINE)


class Counted(NamedTuple):
    """What the product's own metrics say: entities answered without L1, and with it the share that L1 answered."""

    answers: float
    l1_hit_share: float


@dataclass
class Results:
    """Filled as the parts are measured.

    Attributes:
        settling: before anything counts; only its wrong answers and errors do.
        rounds: by part.
        without_feast: why, in words, where it was left out.
    """

    settling: list[Turn] = field(default_factory=list)
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    counted: Counted | None = None
    without_feast: str = ""
    feast: dict[str, Turn] = field(default_factory=dict)
    memory: list[Footprint] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def turns(self) -> list[Turn]:
        measured = [turn for rounds in self.rounds.values() for one in rounds for turn in one.values()]
        return [*self.settling, *measured, *self.feast.values()]

    def errors(self, names: Iterable[str]) -> dict[str, int]:
        """By code or status."""
        wanted = set(names)
        total = Counter[str]()
        for turn in self.turns:
            if turn.contender in wanted:
                total.update(turn.errors)
        return dict(total)

    @property
    def wrong(self) -> int:
        """Of all contenders: a wrong answer of theirs would be a fault of the benchmark."""
        return sum(turn.wrong for turn in self.turns)

    @property
    def is_good(self) -> bool:
        return not self.wrong and not self.errors(OURS)

    @property
    def uncounted(self) -> float:
        """Answers without L1 that the client got and the product's log and metrics missed; NaN where not known."""
        if self.counted is None:
            return float("nan")
        entities = {HOTSET: 1, BATCH: BATCH_ENTITIES}
        answered = sum(turn.answers * entities.get(turn.contender, 0) for turn in self.turns)
        return max(0.0, answered - self.counted.answers)

    @property
    def late_p99_ms(self) -> float:
        """The worst turn; not of others, of whom an overload makes the generator late too."""
        return max((turn.late_p99_ms for turn in self.turns if turn.contender in OURS), default=0.0)

    @property
    def bytes_per_entity(self) -> float:
        """The most of the small kinds of output, of all servers."""
        return max((one.bytes_per_entity for one in self.memory if one.output in SMALL), default=float("nan"))

    def to_json(self) -> bytes:
        """One line. Times in ms, shares and ratios plain; null for what was not measured."""
        return json_line(self.document())

    def document(self) -> dict[str, object]:
        open2000 = self.rounds.get(f"{OPEN}2000", [])
        batch = median(self.rounds.get(BATCHES, []), BATCH, _rate)
        return {
            **{name: value for n in CONNECTIONS for name, value in self._closed(n).items()},
            "closed16_l1_over_floor": median_ratio(self.rounds.get(f"{CLOSED}16", []), HOTSET_L1, FLOOR, _rate),
            **{name: value for rate in RATES for name, value in self._open(rate).items()},
            "open2000_errors": sum(sum(one[HOTSET].errors.values()) for one in open2000) if open2000 else None,
            "batch_entities_per_s": batch * BATCH_ENTITIES,
            "bytes_per_entity": self.bytes_per_entity,
            "crossovers": sum(turn.crossovers for turn in self.turns),
            "wrong_answers": self.wrong,
            "errors": sum(self.errors(OURS).values()),
            "errors_of_others": self.errors({turn.contender for turn in self.turns} - set(OURS)),
            "answers": sum(turn.answers for turn in self.turns),
            "uncounted_answers": self.uncounted,
            "l1_hit_share": self.counted.l1_hit_share if self.counted else None,
            "cpu_us_per_answer": self._cpu(),
            "late_p99_ms": self.late_p99_ms,
            "memory": [_memory(one) for one in self.memory],
            "runs": [_run(part, name, self.rounds[part]) for part, name in self.pairs()],
            "feast": {part: _turn(turn) for part, turn in self.feast.items()},
            "wall_s": self.wall_s,
        }

    def pairs(self) -> list[tuple[str, str]]:
        """Parts with their contenders, in order."""
        return [(part, name) for part, rounds in self.rounds.items() for name in _names(rounds)]

    def _closed(self, connections: int) -> dict[str, float]:
        rounds, part = self.rounds.get(f"{CLOSED}{connections}", []), f"{CLOSED}{connections}"
        return {
            f"{part}_over_floor": median_ratio(rounds, HOTSET, FLOOR, _rate),
            f"{part}_over_plain": median_ratio(rounds, HOTSET, PLAIN, _rate),
            f"{part}_per_s": median(rounds, HOTSET, _rate),
        }

    def _open(self, rate_per_s: int) -> dict[str, float]:
        rounds, part = self.rounds.get(f"{OPEN}{rate_per_s}", []), f"{OPEN}{rate_per_s}"
        return {
            f"{part}_p50_over_floor": median_ratio(rounds, HOTSET, FLOOR, _p50),
            f"{part}_p99_over_floor": median_ratio(rounds, HOTSET, FLOOR, _p99),
            f"{part}_p50_ms": median(rounds, HOTSET, _p50),
            f"{part}_p99_ms": median(rounds, HOTSET, _p99),
        }

    def _cpu(self) -> dict[str, float]:
        """At 16 connections, with Redis's for those that ask it."""
        rounds = self.rounds.get(f"{CLOSED}16", [])
        servers = {name: median(rounds, name, lambda turn: turn.cpu_us) for name in _names(rounds)}
        return {**servers, "redis": median(rounds, HOTSET, lambda turn: turn.redis_cpu_us)}


def count(stack: Stack) -> Counted:
    """Once all is answered."""
    time.sleep(FOLD_S)
    with_l1 = stack.metrics(HOTSET_L1)
    hits = sum(map(float, _L1_HITS.findall(with_l1)))
    return Counted(_answers(stack.metrics(HOTSET)), hits / (_answers(with_l1) or float("nan")))


def _answers(metrics: str) -> float:
    return sum(map(float, _ANSWERS.findall(metrics)))


def _rate(turn: Turn) -> float:
    return turn.good_per_s


def _p50(turn: Turn) -> float:
    return turn.latency.p50_ms


def _p99(turn: Turn) -> float:
    return turn.latency.p99_ms


def _names(rounds: list[Round]) -> list[str]:
    return list(rounds[0]) if rounds else []


def _run(part: str, name: str, rounds: list[Round]) -> dict[str, object]:
    """Medians, and the rates of the single rounds, from which their spread can be seen."""
    turns = [one[name] for one in rounds if name in one]
    figures: dict[str, Callable[[Turn], float]] = {
        "per_s": _rate,
        "p50_ms": _p50,
        "p99_ms": _p99,
        "cpu_us": lambda turn: turn.cpu_us,
        "redis_cpu_us": lambda turn: turn.redis_cpu_us,
        "generator_cpu_share": lambda turn: turn.generator_cpu_share,
    }
    total = Counter[str]()
    for turn in turns:
        total.update(turn.errors)
    return {
        "part": part,
        "server": name,
        **{key: median(rounds, name, figure) for key, figure in figures.items()},
        "errors": dict(total),
        "rounds_per_s": [turn.good_per_s for turn in turns],
        "rounds_p50_ms": [turn.latency.p50_ms for turn in turns],
        "rounds_p99_ms": [turn.latency.p99_ms for turn in turns],
    }


def _turn(turn: Turn) -> dict[str, object]:
    return {
        "per_s": turn.good_per_s,
        "p50_ms": turn.latency.p50_ms,
        "p99_ms": turn.latency.p99_ms,
        "cpu_us": turn.cpu_us,
        "errors": turn.errors,
    }


def _memory(one: Footprint) -> dict[str, object]:
    return {
        "server": one.server,
        "output": one.output,
        "entities": one.entities,
        "bytes_per_entity": one.bytes_per_entity,
        "listpack_share": one.listpack_share,
        "load_entities_per_s": one.entities / one.load_s,
    }
