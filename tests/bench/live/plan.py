"""How long each part of the benchmark runs, in full and in its quick form."""

from dataclasses import dataclass, replace
from typing import Self

RATES = (100, 300, 600, 720)
OVERLOAD, CPU, PEERS = "overload", "cpu", "peers"
PARTS = (*map(str, RATES), OVERLOAD, CPU, PEERS)


@dataclass(frozen=True)
class Plan:
    """Rates are requests per second; seeds make their repetitions differ.

    Attributes:
        runs: rate and how often, in this order.
        peers: by name, the rates each is offered.
        cpu_rounds: bare loop and tier take turns so often, `cpu_s` each.
    """

    runs: tuple[tuple[int, int], ...]
    warm_s: float
    measured_s: float
    peers: dict[str, tuple[int, ...]]
    has_overload: bool
    normal_s: float
    overload_s: float
    recovery_s: float
    cpu_rounds: int
    cpu_s: float

    def only(self, parts: list[str]) -> Self:
        """This plan with nothing but these of `PARTS`."""
        runs = tuple((rate, often) for rate, often in self.runs if str(rate) in parts)
        return replace(
            self,
            runs=runs,
            peers=self.peers if PEERS in parts else {},
            has_overload=OVERLOAD in parts,
            cpu_rounds=self.cpu_rounds if CPU in parts else 0,
        )


FULL = Plan(
    runs=((100, 1), (300, 1), (600, 5), (720, 3)),
    warm_s=3.0,
    measured_s=12.0,
    peers={"mosec": RATES, "litserve": (100, 300, 600)},
    has_overload=True,
    normal_s=5.0,
    overload_s=8.0,
    recovery_s=6.0,
    cpu_rounds=4,
    cpu_s=4.0,
)
QUICK = Plan(
    runs=((100, 1), (300, 1), (600, 1), (720, 1)),
    warm_s=0.8,
    measured_s=2.7,
    peers={"mosec": (600,)},
    has_overload=True,
    normal_s=1.2,
    overload_s=3.0,
    recovery_s=2.3,
    cpu_rounds=2,
    cpu_s=1.0,
)
