"""Errors of the Open Inference Protocol, with the statuses that Triton gives them over HTTP and gRPC.

Source of the mapping: Triton's `HttpCodeFromError` and `GrpcStatusUtil::CodeToStatus`; an expired `timeout` is
UNAVAILABLE there too ("Request timeout expired"). Triton has no administration of its own; those are ours.
"""

from typing import ClassVar


class ProtocolError(Exception):
    """What a caller is told. `retry_after_s`: when another attempt may succeed, None where it will not."""

    http_status: ClassVar[int] = 500
    grpc_status: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.retry_after_s = message, retry_after_s


class Invalid(ProtocolError):
    http_status, grpc_status = 400, "INVALID_ARGUMENT"


class NotFound(ProtocolError):
    http_status, grpc_status = 404, "NOT_FOUND"


class Failed(ProtocolError):
    """The model, or what it answered, is at fault."""


class Unavailable(ProtocolError):
    """Not ready, over capacity or too late: nothing is wrong with the request."""

    http_status, grpc_status = 503, "UNAVAILABLE"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message, retry_after_s)


class DeadlinePassed(Unavailable):
    """The deadline of the call itself, which gRPC has beside the request's `timeout`."""

    http_status, grpc_status = 504, "DEADLINE_EXCEEDED"


class TooLarge(ProtocolError):
    http_status, grpc_status = 413, "RESOURCE_EXHAUSTED"


class UnknownEncoding(ProtocolError):
    """A `Content-Encoding` that is not spoken."""

    http_status, grpc_status = 415, "UNIMPLEMENTED"


class Unauthenticated(ProtocolError):
    http_status, grpc_status = 401, "UNAUTHENTICATED"


class SwitchedOff(ProtocolError):
    http_status, grpc_status = 403, "PERMISSION_DENIED"
