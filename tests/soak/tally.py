"""Counts of a soak, and how they are shown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.soak.asking import Asked
from tests.soak.checking import Fault
from tests.soak.stack import Stack

_SHOWN_FAULTS = 10


@dataclass
class Tally:
    """What clients saw.

    Attributes:
        requests: sent, also in part; `answers`: read to their end.
        sources, codes, reasons: of results, of which a batch has many.
        left: disconnects, by when.
    """

    requests: int = 0
    answers: int = 0
    results: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    generations: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    crossovers: int = 0
    others: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, status: int, documents: Sequence[Mapping[str, object]]) -> None:
        self.answers += 1
        self.statuses[status] += 1
        self.results += len(documents)
        for document in documents:
            if "code" in document:
                self.codes[str(document["code"])] += 1
                continue
            self.sources[str(document["source"])] += 1
            if document["generation"] is not None:
                self.generations[f"{document['version']}/{document['generation']}"] += 1
            if document["miss_reason"] is not None:
                self.reasons[str(document["miss_reason"])] += 1

    def blame(self, asked: Asked | None, fault: Fault) -> None:
        self.crossovers += fault.is_crossover
        self.others += not fault.is_crossover
        if len(self.examples) < _SHOWN_FAULTS:
            about = f"{asked.request_id} {[item.entity for item in asked.items[:3]]}: " if asked else ""
            self.examples.append(about + fault.said)


def report(stack: Stack, tally: Tally, took_s: float) -> str:
    rows = {
        "requests": f"{tally.requests} in {took_s:.0f} s; {tally.answers} answers of {tally.results} results",
        "statuses": _shown(tally.statuses),
        "sources": _shown(tally.sources),
        "precomputed in": _shown(tally.generations),
        "miss reasons": _shown(tally.reasons),
        "problems": _shown(tally.codes),
        "clients gone": _shown(tally.left),
        "given up live": sum(version.cancels for version in stack.tier.values()),
        "between API and Redis": _shown(stack.proxy.counts),
        "counted as foreign": stack.foreign,
        "crossovers": tally.crossovers,
        "other wrong answers": tally.others,
    }
    width = max(len(name) for name in rows)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows.items()]
    return "\n".join([*lines, *(f"    {example}" for example in tally.examples)])


def _shown(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count) or "none"
