"""Whether a model's weights fit a card's memory. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from online.planning.answer import percent
from online.planning.checks import OutOfRange, positive


@dataclass(frozen=True, slots=True)
class Weights:
    """Both in GB, 10^9 bytes, of a model and of a card; None where it is not asked.

    Raises:
        OutOfRange: names the field; also where only one is given.
    """

    weight_gb: float | None = None
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("weight_gb", self.weight_gb), ("memory_gb", self.memory_gb)):
            if value is not None:
                positive(**{name: value})
        if (self.weight_gb is None) != (self.memory_gb is None):
            missing = "weight_gb" if self.weight_gb is None else "memory_gb"
            raise OutOfRange(missing, "missing", "weight_gb and memory_gb, or neither")

    @property
    def share_of_memory(self) -> float | None:
        if self.weight_gb is None or self.memory_gb is None:
            return None
        return self.weight_gb / self.memory_gb

    @property
    def notes(self) -> Sequence[str]:
        """What to say of it."""
        if (share := self.share_of_memory) is None:
            return ()
        if share <= 1:
            return (f"The weights fit: {percent(share)} of a card's memory.",)
        return (f"The weights do not fit: {percent(share)} of a card's memory; `strategy` shows what would help.",)


NOT_ASKED = Weights()
