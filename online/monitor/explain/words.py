"""What sources, miss reasons and problem codes mean, in a sentence each; a test holds them against the enums."""

from collections.abc import Mapping

from schemas.http import MissReason, ProblemCode, Source

SOURCES: Mapping[str, str] = {
    Source.PRECOMPUTED: "answered from the precomputed set",
    Source.CACHED: "answered from a live result that had been written back",
    Source.LIVE: "computed by the model for this request",
    Source.STALE: "answered with an older stored value, since the live tier could not answer",
    Source.DEFAULT: "answered with the model's default, since the live tier could not answer",
}

REASONS: Mapping[str, str] = {
    MissReason.NOT_SELECTED: "The entity is known, but is not among those that the generation holds.",
    MissReason.NEW_ENTITY: "The entity is in no feature table: it is new, or misspelt.",
    MissReason.EXPIRED: "What was stored is older than the model or the request allows.",
    MissReason.INVALIDATED: "What was stored had been invalidated.",
    MissReason.VERSION_NOT_PRECOMPUTED: "The version that answers has no generation yet.",
    MissReason.CALLER_FEATURES: "The request brought features of its own, for which nothing is precomputed.",
    MissReason.NO_CACHE: "The request asked for a fresh answer (Cache-Control).",
    MissReason.CORRUPT: "What was stored could not be read as a prediction.",
    MissReason.FOREIGN: "What was stored belongs to another entity; it was found out and not used.",
    MissReason.REDIS_TIMEOUT: "Redis did not reply within the budget of a look-up.",
    MissReason.CONNECTION_LOST: "The connection to Redis was lost while it was asked.",
    MissReason.BREAKER_OPEN: "Redis had just been slow or gone, so it was not asked (breaker).",
}

CODES: Mapping[str, str] = {
    ProblemCode.INVALID_REQUEST: "The request could not be read as one.",
    ProblemCode.INVALID_ENTITY: "The entity's id is not one that can be.",
    ProblemCode.INVALID_FEATURES: "The features do not fit the model.",
    ProblemCode.UNKNOWN_MODEL: "There is no such model.",
    ProblemCode.UNKNOWN_ENTITY: "The entity is in no feature table, and the request brought no features.",
    ProblemCode.NOT_FOUND: "There is no such path.",
    ProblemCode.METHOD_NOT_ALLOWED: "The path takes another method.",
    ProblemCode.BODY_TOO_LARGE: "The body was longer than allowed.",
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: "The body was not said to be JSON.",
    ProblemCode.UNAUTHORISED: "The token was missing or wrong.",
    ProblemCode.ADMIN_DISABLED: "Administration is switched off.",
    ProblemCode.MODEL_ERROR: "The model failed on this row.",
    ProblemCode.OVERLOADED: "Every replica was over capacity.",
    ProblemCode.LIVE_UNAVAILABLE: "No replica had this version warm, or the one that worked on it was lost.",
    ProblemCode.FEATURES_UNAVAILABLE: "The features could not be read: Redis was away, and there was no snapshot.",
    ProblemCode.DEADLINE_EXCEEDED: "The deadline passed before there was an answer.",
    ProblemCode.NOT_READY: "No version of this model was live yet.",
    ProblemCode.NOT_STORED: "The request wanted a stored answer only, and none was fresh enough.",
    ProblemCode.INVALIDATIONS_FULL: "Too many entities are invalidated already.",
    ProblemCode.STORE_UNAVAILABLE: "Redis took no writes.",
    ProblemCode.INTERNAL: "A mistake of ours; the API's own log has it under this request id.",
}

STAGES: Mapping[str, str] = {
    "route": "reading the request, choosing who answers",
    "lookup": "L1, then Redis",
    "features": "reading features, making tensors",
    "queue": "waiting for a batch",
    "batch": "putting the batch together",
    "execute": "the model, on its device",
    "post": "writing the answer",
}
REST = "between the stages: event loops, the wire"


def printable(text: str) -> str:
    """In quotes; what a terminal would not show, or would obey, is escaped."""
    shown = "".join(
        letter if letter.isprintable() and letter not in '"\\' else _escaped(letter) for letter in text
    )
    return f'"{shown}"'


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode() if letter != '"' else '\\"'
