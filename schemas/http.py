"""Public request and response models of the endpoint, its answer sources and its stable problem codes."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from schemas.names import entity_bytes

MAX_BATCH_ENTITIES = 1000

FeatureValue = StrictBool | StrictInt | StrictFloat | StrictStr | None


def _checked_entity(entity: str) -> str:
    entity_bytes(entity)
    return entity


Entity = Annotated[
    StrictStr,
    AfterValidator(_checked_entity),
    Field(
        description="1 to 256 bytes of UTF-8, any characters; compared byte for byte, never normalised.",
        min_length=1,
        max_length=256,
        examples=["UA1545-EWR-IAH"],
    ),
]


class Source(StrEnum):
    """Where an answer came from."""

    PRECOMPUTED = "precomputed"
    CACHED = "cached"
    LIVE = "live"
    STALE = "stale"
    DEFAULT = "default"


class MissReason(StrEnum):
    """Why an answer was not precomputed. The last three say that Redis gave no reply."""

    NOT_SELECTED = "not_selected"
    NEW_ENTITY = "new_entity"
    EXPIRED = "expired"
    INVALIDATED = "invalidated"
    VERSION_NOT_PRECOMPUTED = "version_not_precomputed"
    CALLER_FEATURES = "caller_features"
    NO_CACHE = "no_cache"
    CORRUPT = "corrupt"
    FOREIGN = "foreign"
    REDIS_TIMEOUT = "redis_timeout"
    CONNECTION_LOST = "connection_lost"
    BREAKER_OPEN = "breaker_open"


class ProblemCode(StrEnum):
    """The stable `code` of a problem document."""

    INVALID_REQUEST = "invalid_request"
    INVALID_ENTITY = "invalid_entity"
    INVALID_FEATURES = "invalid_features"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_ENTITY = "unknown_entity"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNAUTHORISED = "unauthorised"
    ADMIN_DISABLED = "admin_disabled"
    MODEL_ERROR = "model_error"
    OVERLOADED = "overloaded"
    LIVE_UNAVAILABLE = "live_unavailable"
    FEATURES_UNAVAILABLE = "features_unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    NOT_READY = "not_ready"
    NOT_STORED = "not_stored"
    INVALIDATIONS_FULL = "invalidations_full"
    STORE_UNAVAILABLE = "store_unavailable"
    INTERNAL = "internal"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PredictRequest(_Document):
    """One entity. With `features` the answer is computed from those, and from nothing stored."""

    entity: Entity
    features: dict[StrictStr, FeatureValue] | None = Field(
        default=None, description="Raw features by name, as the model's specification lists them."
    )


class BatchRequest(_Document):
    """Up to 1,000 entities, or items with features of their own; answered in order."""

    items: Annotated[list[StrictStr | PredictRequest], Field(min_length=1, max_length=MAX_BATCH_ENTITIES)] = Field(
        description="An entity, or an object as `predict` takes it."
    )


class LabelScore(_Document):
    """One of a top-k's labels."""

    label: str
    score: float


class Prediction(_Document):
    """An answer, and where it came from."""

    entity: str
    model: str
    version: str = Field(description="The version that computed the answer.")
    generation: str | None = Field(default=None, description="The precomputed set it was read from.")
    source: Source
    label: str | None = None
    confidence: float | None = None
    outputs: dict[str, float | list[float] | list[LabelScore]] = Field(
        description="By output: a number, a vector's numbers, or the best labels of a top-k, the best first."
    )
    computed_at: str = Field(description="UTC, RFC 3339 with milliseconds, by Redis's clock.")
    age_s: float
    miss_reason: MissReason | None = None
    experiment: str | None = None
    arm: str | None = None
    request_id: str


class Problem(_Document):
    """RFC 9457."""

    type: str
    title: str
    status: int
    code: ProblemCode
    detail: str
    entity: str | None = None
    errors: list[dict[str, str]] | None = Field(
        default=None, description="Field and reason, where fields are bad."
    )
    request_id: str | None = None


class BatchResponse(_Document):
    """A prediction or a problem for each item, in order."""

    results: list[Prediction | Problem]


class InvalidateRequest(_Document):
    """Entities whose stored answers no longer count, of all versions of the model."""

    entities: Annotated[list[Entity], Field(min_length=1, max_length=MAX_BATCH_ENTITIES)]


class Invalidated(_Document):
    """Every answer computed until `at` is a miss from now on; on other workers within a second."""

    entities: int = Field(description="How many different entities that were.")
    at: str = Field(description="UTC, RFC 3339 with milliseconds, by Redis's clock.")


class ModelInformation(_Document):
    """What answers for a model now."""

    model: str
    stable: str
    versions: list[str]
    generation: str | None
    rows: int | None
    computed_at: str | None
    features: list[str]
    epoch: int
    revision: int
