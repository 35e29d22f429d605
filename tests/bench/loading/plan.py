"""How much is loaded, how often, and how long look-ups are watched, in full and in the quick form."""

from dataclasses import dataclass, replace
from typing import Self

LOAD, LOOKUPS, MEMORY = "load", "lookups", "memory"
PARTS = (LOAD, LOOKUPS, MEMORY)
RATE_PER_S = 500
# What an operator gives a night's load: ten million entities are in within some eight minutes, and the server,
# which writes a bucket of 96 in 0.1 ms, is busy with them for a fiftieth of its time.
THROTTLE_PER_S = 20_000


@dataclass(frozen=True)
class Plan:
    """Pipe and load take turns, `rounds` times; look-ups without and during a load for as long as look-ups go on.

    Attributes:
        entities: of the load beside the pipe.
        served: entities of the live generation, where the load beside the pipe is left out.
        lookup_s: how long look-ups go on; 0 for none. The first `warm_s` do not count.
        quiet_s: of each turn, without a load; the load then takes about as long.
        throttle_per_s: entities a second of the load during look-ups.
        other_entities: of each of these loads.
        memory_entities: of the loads whose memory is measured, the smallest first.
    """

    entities: int
    served: int
    rounds: int
    lookup_s: float
    warm_s: float
    quiet_s: float
    throttle_per_s: int
    other_entities: int
    memory_entities: tuple[int, ...] = ()

    def only(self, parts: list[str]) -> Self:
        """This plan with nothing but these of `PARTS`."""
        kept = self if LOAD in parts else replace(self, rounds=0, entities=self.served)
        kept = kept if MEMORY in parts else replace(kept, memory_entities=())
        return kept if LOOKUPS in parts else replace(kept, lookup_s=0.0)


FULL = Plan(
    entities=1_000_000,
    served=100_000,
    rounds=3,
    lookup_s=90.0,
    warm_s=1.0,
    quiet_s=3.5,
    throttle_per_s=THROTTLE_PER_S,
    other_entities=60_000,
    memory_entities=(1_000_000, 10_000_000),
)
QUICK = Plan(
    entities=60_000,
    served=20_000,
    rounds=2,
    lookup_s=14.0,
    warm_s=0.5,
    quiet_s=1.2,
    throttle_per_s=THROTTLE_PER_S,
    other_entities=20_000,
)
