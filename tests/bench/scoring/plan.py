"""How long each part of the benchmark runs, in full and in its quick form."""

from dataclasses import dataclass, replace
from typing import Self

from tests.bench.scoring.models import DEMO, MLP

PARTS = (DEMO, MLP)
# A run of a tenth of the rows comes first.
GROWTH = 10


@dataclass(frozen=True)
class Plan:
    """Rows follow from the bare loop's speed, so that a slow machine takes no longer.

    Attributes:
        models: by name, for how many seconds the bare loop has rows.
        warm_rows: that bare loop and Spark score before anything counts.
        rounds: of bare loop and Spark taking turns; the bare loop has one turn more.
    """

    models: dict[str, float]
    warm_rows: int
    rounds: int

    def only(self, parts: list[str]) -> Self:
        """This plan with nothing but these of `PARTS`."""
        return replace(self, models={name: seconds for name, seconds in self.models.items() if name in parts})


FULL = Plan({DEMO: 60.0, MLP: 60.0}, warm_rows=8192, rounds=1)
QUICK = Plan({DEMO: 2.0, MLP: 2.0}, warm_rows=2048, rounds=1)
