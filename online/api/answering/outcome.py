"""What becomes of one asked entity: an answer and where it came from, or an error. One object down to the log."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from online.api.answering.flights import LiveResult
from online.api.routes.view import VersionView
from online.errors import ServingError
from schemas.http import MissReason, Source
from schemas.outputs import Answer

Float32Array = npt.NDArray[np.float32]


@dataclass(slots=True)
class Item:
    """One entity as asked. With `record`, the features the caller brought, nothing stored is read but `i:`."""

    entity: str
    raw: bytes
    record: Mapping[str, object] | None = None


@dataclass(slots=True)
class Outcome:
    """Of one item. Either `error`, or source, outputs and answer are set; stages that were not passed are None."""

    entity: str | None = None
    version: VersionView | None = None
    source: Source | None = None
    outputs: Float32Array | None = None
    answer: Answer | None = None
    computed_at_ms: int = 0
    generation: str | None = None
    miss_reason: MissReason | None = None
    error: ServingError | None = None
    is_caller_features: bool = False
    record: Mapping[str, object] | None = None
    lookup_us: int | None = None
    features_us: int | None = None
    live: LiveResult | None = None
