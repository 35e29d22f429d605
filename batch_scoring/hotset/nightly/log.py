"""The night's log, whatever its size: what the choice asks of it. Two ways to answer give the same numbers."""

from collections.abc import Collection, Sequence
from typing import Protocol

from batch_scoring.hotset.choosing import Choice, Room
from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.nightly.log_rows import RowFacts
from batch_scoring.hotset.nightly.traffic import Traffic
from batch_scoring.hotset.trace import Trace

Curve = list[tuple[float, float]]


class Log(Protocol):
    """`past`: how many windows of `refresh_s` before the night's moment are counted."""

    @property
    def facts(self) -> RowFacts: ...

    def sample(self, most_requests: int) -> tuple[Trace, set[str], float]:
        """Some entities with all of their requests, which of them have no features, and their share of all."""
        ...

    def known_of(self, names: Sequence[str]) -> list[str]:
        """Those that have features, in the names' order."""
        ...

    def count(self, fit: Fit, past: int) -> None:
        """Counts everybody's requests, as the fit weighs them. Asked for before what follows."""
        ...

    def choose(self, model: CostModel, room: Room, mandatory: Collection[str], blocked: Collection[str]) -> Choice:
        """Among those with features."""
        ...

    def weights_of(self, names: Sequence[str]) -> list[float]:
        """Weighted requests of each; 0 for whom nobody asked."""
        ...

    def curve(self, known: int) -> tuple[Curve, int]:
        """Coverage of the known entities, most asked for first, and how many entities were asked for at all."""
        ...

    def traffic(self, hot: Sequence[str], old: Sequence[str], since_s: float | None) -> Traffic:
        """Beside the set, and the one in service, which was chosen at `since_s`."""
        ...
