"""How much is loaded, how often, and how long look-ups are watched, in full and in the quick form."""

from dataclasses import dataclass, replace
from typing import Self

LOAD, LOOKUPS, MEMORY = "load", "lookups", "memory"
PARTS = (LOAD, LOOKUPS, MEMORY)
RATE_PER_S = 500


@dataclass(frozen=True)
class Plan:
    """Pipe and load take turns, `rounds` times; so do look-ups without and during a load.

    Attributes:
        entities: of the load beside the pipe.
        served: entities of the live generation, where the load beside the pipe is left out.
        throttle_per_s: entities a second of the load during look-ups.
        other_entities: of that load, which begins again while look-ups go on.
        memory_entities: of the loads whose memory is measured, the smallest first.
    """

    entities: int
    served: int
    rounds: int
    lookup_rounds: int
    warm_s: float
    measured_s: float
    throttle_per_s: int
    other_entities: int
    memory_entities: tuple[int, ...] = ()

    def only(self, parts: list[str]) -> Self:
        """This plan with nothing but these of `PARTS`."""
        kept = self if LOAD in parts else replace(self, rounds=0, entities=self.served)
        kept = kept if MEMORY in parts else replace(kept, memory_entities=())
        return kept if LOOKUPS in parts else replace(kept, lookup_rounds=0)


FULL = Plan(
    entities=1_000_000,
    served=100_000,
    rounds=3,
    lookup_rounds=3,
    warm_s=1.0,
    measured_s=10.0,
    throttle_per_s=20_000,
    other_entities=200_000,
    memory_entities=(1_000_000, 10_000_000),
)
QUICK = Plan(
    entities=60_000,
    served=20_000,
    rounds=2,
    lookup_rounds=1,
    warm_s=0.5,
    measured_s=4.0,
    throttle_per_s=20_000,
    other_entities=20_000,
)
