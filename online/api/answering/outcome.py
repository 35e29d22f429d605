"""What becomes of one asked entity: an answer and where it came from, or an error. One object down to the log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from online.api.answering.flights import LiveResult
from online.api.routes.view import VersionView
from online.errors import ServingError
from schemas.http import MissReason, Source
from schemas.outputs import Answer


@dataclass(slots=True)
class Item:
    """One entity as asked. With `record`, the features the caller brought, nothing stored is read but `i:`."""

    entity: str
    raw: bytes
    record: Mapping[str, object] | None = None


@dataclass(slots=True)
class Outcome:
    """Of one item. Either `error`, or source, outputs and answer are set; stages that were not passed are None.

    Attributes:
        is_wish_refused: a stored value was answered though the request wanted a fresher one: the cap was reached.
        is_not_modified: the client has this answer, and is told only that.
        keep_as: by what L1 may keep it.
        rendered, etag: of its text, where L1 had kept them.
    """

    entity: str | None = None
    version: VersionView | None = None
    source: Source | None = None
    outputs: Sequence[float] | None = None
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
    is_wish_refused: bool = False
    is_not_modified: bool = False
    keep_as: bytes | None = None
    rendered: bytes | None = None
    etag: bytes = b""
