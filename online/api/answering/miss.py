"""One item that no stored value answers, and what is known of it on its way to the live tier."""

from dataclasses import dataclass

from online.api.answering.outcome import Item, Outcome
from online.api.lookup.values import NO_LIMITS, Found, Limits
from online.api.routes.view import VersionView
from schemas.http import MissReason
from schemas.keys import input_key
from schemas.wire import Tensor


@dataclass(slots=True)
class Miss:
    """Until it has been looked up, an item that may become one.

    Attributes:
        tensors, digest: of features that the caller brought.
        expired: the stored value that is too old, where live may not answer.
    """

    item: Item
    outcome: Outcome
    version: VersionView
    reason: MissReason
    limits: Limits = NO_LIMITS
    tensors: list[Tensor] | None = None
    digest: bytes = b""
    expired: Found | None = None


def answer_by(outcome: Outcome, found: Found) -> None:
    """A stored value becomes the answer."""
    outcome.source, outcome.outputs = found.source, found.prediction.outputs
    outcome.computed_at_ms, outcome.miss_reason = found.prediction.computed_at_ms, found.reason
    outcome.generation = found.generation


def flight_subject(entity: bytes, invalidated_ms: int) -> bytes:
    """Who asks after an invalidation does not board what began before it."""
    return b"e%d:%b" % (invalidated_ms, entity)


def kept_input_key(miss: Miss) -> bytes:
    """Where the result of features that the caller brought is kept."""
    return input_key(miss.version.model, miss.version.name, miss.digest.decode()).encode()
