"""Plain hits as the event loop hands them to the request log, without the server around them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from online.api.answering.l1 import Kept
from schemas.outputs import Answer


class Version(NamedTuple):
    """What the log asks of a version where nothing is withheld."""

    name: str
    model: str = "m"


class Lane(NamedTuple):
    """`version`: in place of a view's own, which takes a whole bundle to make."""

    version: Any
    view: Any = None


@dataclass
class AnsweredHit:
    lane: Lane
    kept: Kept
    request_id: bytes
    now_us: int
    total_us: int = 900
    route_us: int = 40
    lookup_us: int = 600
    post_us: int = 30

    @property
    def numbers(self) -> tuple[int, int, int, int, int]:
        return self.now_us, self.total_us, self.route_us, self.lookup_us, self.post_us


def kept(
    entity: bytes,
    generation: str | None = "g",
    label: str | None = "late",
    confidence: float | None = 0.5,
    computed_at_ms: int = 0,
    outputs: Iterable[float] = (0.5,),
) -> Kept:
    answer = Answer({}, label, confidence)
    return Kept(entity, [*outputs], answer, computed_at_ms, generation, b"", b"")
