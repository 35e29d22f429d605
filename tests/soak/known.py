"""What is right: each generation and each version has a value of its own for each entity, so mix-ups show.

Between two switches lies an era. An answer is right if it is that of an era which was live while it was asked for.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from schemas.manifest import REQUIRED_FILES, Freshness, InputTensor, Manifest, NumberFeature, Output
from schemas.manifest import OutputSpecification as Outputs
from schemas.wire import Float32Array, Tensor
from tests.support.publish_small import Small

MODEL, OUTPUT, FEATURE = "soak", "value", "place"
HOT, COLD, BROUGHT = 1500, 1500, 200
# All places have five digits, so that no stored record is longer than another; values are exact in float32.
STRIDE = 100_000
_FIRST_PLACE, _FIRST_BROUGHT = 10_000, 50_000
# Of a written-back result, so that what was computed live gives way to the generation again.
_LIVE_TTL_S = 2

NAMES = [f"e{number:05d}" for number in range(HOT + COLD)]


def place_of(number: int) -> int:
    """What the model is told of entity `number`; the first `HOT` are precomputed."""
    return _FIRST_PLACE + number


def brought_place(number: int) -> int:
    """A place that no entity has, for features that a caller brings."""
    return _FIRST_BROUGHT + number


def value_of(mark: int, place: int) -> float:
    return float(mark * STRIDE + place)


def meaning_of(value: object) -> tuple[int, int] | None:
    """Mark and place; None for what is no value of anybody."""
    return divmod(int(value), STRIDE) if isinstance(value, float) and value.is_integer() else None


@dataclass(slots=True, eq=False)
class Era:
    """What is live for a time, on the clock of `time.monotonic`.

    Attributes:
        stored, live: marks of the generation's values and of those computed live.
        from_s, until_s: from when its first answer may come, until when the last worker has left it.
    """

    version: str
    generation: str
    ordinal: int
    stored: int
    live: int
    from_s: float = math.inf
    until_s: float = math.inf
    computed_at: str = ""

    def begin(self, computed_at_ms: int) -> None:
        """Before anybody can know of it."""
        self.from_s, self.computed_at = time.monotonic(), rfc3339(computed_at_ms)

    def end(self) -> None:
        """When every worker has left it. Who asked before may still be answered by it."""
        self.until_s = time.monotonic()

    def was_live(self, from_s: float, until_s: float) -> bool:
        return self.from_s <= until_s and from_s <= self.until_s


def new_eras() -> list[Era]:
    """Another generation of the same version, then another version."""
    return [
        Era("1", "20261128T0200Z-1", 1, stored=11, live=1),
        Era("1", "20261128T1400Z-1", 2, stored=12, live=1),
        Era("2", "20261129T0200Z-1", 3, stored=23, live=2),
    ]


def rfc3339(ms: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def marking(mark: int) -> Callable[[Mapping[str, Tensor]], Float32Array]:
    """A model: (n, 1) places to (n, 1) values."""
    return lambda tensors: (tensors[FEATURE] + np.float32(mark * STRIDE)).astype(np.float32)


def model(folder: Path, version: str, mark: int, hot: Sequence[str] = NAMES[:HOT]) -> Small:
    """Whose values carry `mark`."""
    records = {name: {FEATURE: float(place_of(number))} for number, name in enumerate(NAMES)}
    return Small(folder, _manifest(version), records, hot, marking(mark))


def _manifest(version: str) -> Manifest:
    return Manifest(
        name=MODEL,
        version=version,
        files=dict.fromkeys(REQUIRED_FILES, "0" * 64),
        torch_version="none",
        created_at="2026-11-29T00:00:00Z",
        features=(NumberFeature(name=FEATURE),),
        inputs=(InputTensor(name=FEATURE, dtype="float32", features=(FEATURE,)),),
        output=Outputs(outputs=(Output(name=OUTPUT),)),
        max_batch_rows=64,
        freshness=Freshness(live_ttl_s=_LIVE_TTL_S),
        golden=(),
    )
