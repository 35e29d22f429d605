"""Which contenders take turns at which load, how often and how long, in full and in the quick form."""

from dataclasses import dataclass, replace
from typing import Self

from tests.bench.hits.contenders import BATCH, FLOOR, HOTSET, HOTSET_L1, PLAIN

CONNECTIONS, RATES = (1, 16, 64), (300, 1000, 2000)
CLOSED, OPEN, BATCHES, FEAST_PART, MEMORY = "closed", "open", "batch", "feast", "memory"
PARTS = (*(f"{CLOSED}{n}" for n in CONNECTIONS), *(f"{OPEN}{n}" for n in RATES), BATCHES, FEAST_PART, MEMORY)
BATCH_CONNECTIONS = 4


@dataclass(frozen=True)
class Load:
    """`size`: connections of a closed loop, or requests a second. In each round all contenders have a turn.

    Attributes:
        once: contenders that have a turn in the first round only.
    """

    part: str
    kind: str
    size: int
    contenders: tuple[str, ...]
    rounds: int
    warm_s: float
    measured_s: float
    once: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """`feast`: its turns, where it is set up. `memory_entities` are loaded of each small kind of output.

    Attributes:
        settle_s: L1 is filled by this much load before anything counts.
    """

    settle_s: float
    loads: tuple[Load, ...]
    feast: tuple[tuple[str, int], ...]
    feast_s: float
    memory_entities: int
    wide_entities: int

    def only(self, parts: list[str]) -> Self:
        """This plan with nothing but these of `PARTS`."""
        return replace(
            self,
            loads=tuple(load for load in self.loads if load.part in parts),
            feast=self.feast if FEAST_PART in parts else (),
            memory_entities=self.memory_entities if MEMORY in parts else 0,
        )


def _closed(connections: int, rounds: int, warm_s: float, measured_s: float, *more: str) -> Load:
    names = (FLOOR, HOTSET, PLAIN, *more)
    return Load(f"{CLOSED}{connections}", CLOSED, connections, names, rounds, warm_s, measured_s)


def _open(rate_per_s: int, rounds: int, warm_s: float, measured_s: float, *once: str) -> Load:
    names = (FLOOR, HOTSET)
    return Load(f"{OPEN}{rate_per_s}", OPEN, rate_per_s, names, rounds, warm_s, measured_s, once)


def _batches(rounds: int, warm_s: float, measured_s: float) -> Load:
    return Load(BATCHES, CLOSED, BATCH_CONNECTIONS, (BATCH,), rounds, warm_s, measured_s)


FULL = Plan(
    settle_s=5.0,
    loads=(
        _closed(16, 7, 0.5, 2.5, HOTSET_L1),
        _closed(1, 3, 0.5, 2.5),
        _closed(64, 3, 0.5, 2.5),
        _open(300, 3, 0.5, 5.0, PLAIN),
        _open(1000, 7, 0.5, 5.0, PLAIN),
        _open(2000, 5, 0.5, 5.0, PLAIN),
        _batches(3, 0.5, 2.5),
    ),
    feast=((CLOSED, 1), (CLOSED, 16), (OPEN, 300)),
    feast_s=4.0,
    memory_entities=1_000_000,
    wide_entities=100_000,
)
QUICK = Plan(
    settle_s=0.8,
    loads=(
        _closed(16, 2, 0.2, 0.6, HOTSET_L1),
        _closed(1, 1, 0.2, 0.5),
        _closed(64, 1, 0.2, 0.5),
        _open(300, 1, 0.2, 0.8),
        _open(1000, 2, 0.2, 1.0),
        _open(2000, 1, 0.2, 1.0),
        _batches(1, 0.2, 0.6),
    ),
    feast=(),
    feast_s=0.0,
    memory_entities=50_000,
    wide_entities=10_000,
)
