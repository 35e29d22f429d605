"""Errors a caller may see. `code` is API; the exception's own message is for logs only, unless it is `detail`."""

from typing import ClassVar

from schemas.http import ProblemCode


class ServingError(Exception):
    """One problem: its status, stable code, and a detail that is safe to show."""

    status: ClassVar[int] = 500
    code: ClassVar[ProblemCode] = ProblemCode.INTERNAL
    title: ClassVar[str] = "Internal error"
    retry_after_s: ClassVar[float | None] = None

    def __init__(self, detail: str, *, retry_after_s: float | None = None, **context: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context
        self.retry_s = retry_after_s if retry_after_s is not None else self.retry_after_s


class InvalidRequest(ServingError):
    status, code, title = 422, ProblemCode.INVALID_REQUEST, "Invalid request"


class InvalidEntity(ServingError):
    status, code, title = 422, ProblemCode.INVALID_ENTITY, "Invalid entity"


class InvalidFeatures(ServingError):
    status, code, title = 422, ProblemCode.INVALID_FEATURES, "Features do not match the model"


class UnknownModel(ServingError):
    status, code, title = 404, ProblemCode.UNKNOWN_MODEL, "Unknown model"


class UnknownEntity(ServingError):
    status, code, title = 404, ProblemCode.UNKNOWN_ENTITY, "Unknown entity"


class BodyTooLarge(ServingError):
    status, code, title = 413, ProblemCode.BODY_TOO_LARGE, "Body too large"


class UnsupportedMediaType(ServingError):
    status, code, title = 415, ProblemCode.UNSUPPORTED_MEDIA_TYPE, "Unsupported media type"


class MethodNotAllowed(ServingError):
    status, code, title = 405, ProblemCode.METHOD_NOT_ALLOWED, "Method not allowed"


class NotFound(ServingError):
    status, code, title = 404, ProblemCode.NOT_FOUND, "Not found"


class ModelError(ServingError):
    status, code, title = 500, ProblemCode.MODEL_ERROR, "The model failed"


class Overloaded(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.OVERLOADED, "Over capacity", 1.0


class LiveUnavailable(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.LIVE_UNAVAILABLE, "Live tier unavailable", 1.0


class FeaturesUnavailable(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.FEATURES_UNAVAILABLE, "Features unavailable", 1.0


class DeadlineExceeded(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.DEADLINE_EXCEEDED, "Deadline exceeded", 1.0


class NotReady(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.NOT_READY, "Not ready", 1.0


class NotStored(ServingError):
    status, code, title = 504, ProblemCode.NOT_STORED, "Not stored"


class InvalidationsFull(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.INVALIDATIONS_FULL, "Too many invalidations", 60.0


class StoreUnavailable(ServingError):
    status, code, title, retry_after_s = 503, ProblemCode.STORE_UNAVAILABLE, "Redis takes no writes", 1.0


class Unauthorised(ServingError):
    status, code, title = 401, ProblemCode.UNAUTHORISED, "Unauthorised"


class AdminDisabled(ServingError):
    status, code, title = 403, ProblemCode.ADMIN_DISABLED, "Administration is switched off"
