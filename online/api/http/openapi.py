"""The prediction end points in the OpenAPI document: they are plain ASGI, their models the same as everybody's."""

from typing import Any

from pydantic.json_schema import models_json_schema

from schemas.http import BatchRequest, BatchResponse, InvalidateRequest, Prediction, PredictRequest, Problem

_REF = "#/components/schemas/"
_ENTITY_RULES = (
    "1 to 256 bytes of UTF-8, any characters, compared byte for byte: never normalised, never read as a number."
)
_PROBLEMS = {
    404: "Unknown model, or an entity of which no features are known.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request, the entity or the features are not valid; `errors` names the fields.",
    500: "The model failed on this input, or the service did.",
    503: "No answer in time or for lack of capacity; `Retry-After` says when to come again.",
    504: "`only-if-cached` was asked for, and nothing stored is fresh enough.",
}
_HEADERS = [
    {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Taken over where given (visible ASCII, 128 bytes), else made; comes back in the answer.",
        "schema": {"type": "string"},
    },
    {
        "name": "X-Deadline-Ms",
        "in": "header",
        "description": "Milliseconds the answer may take, where that is less than the service allows.",
        "schema": {"type": "integer", "minimum": 1},
    },
    {
        "name": "Cache-Control",
        "in": "header",
        "description": "`max-age=N`: no stored answer over N seconds old; `no-cache`: none at all; both within a "
        "rate, beyond which a stored answer comes, with `Cache-Status`. `only-if-cached`: nothing else.",
        "schema": {"type": "string"},
    },
]
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Tags (`ETag`) of answers the client has: where one is the present answer, it gets a 304.",
    "schema": {"type": "string"},
}
_CACHE_STATUS = {
    "description": "RFC 9211, only where a stored answer was given though a fresher one was asked for.",
    "schema": {"type": "string"},
}
_KEPT_HEADERS = {
    "ETag": {
        "description": "Weak: the same while version, time of computation and outputs are the same.",
        "schema": {"type": "string"},
    },
    "Age": {"description": "Seconds since the answer was computed.", "schema": {"type": "integer"}},
    "Cache-Control": {
        "description": "`private` and the model's `max-age`; `no-store` where it is a default.",
        "schema": {"type": "string"},
    },
    "Vary": {"description": "`X-Deadline-Ms`", "schema": {"type": "string"}},
}


def with_predictions(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI's document, and the prediction end points."""
    _, definitions = models_json_schema(
        [
            (PredictRequest, "validation"),
            (BatchRequest, "validation"),
            (Prediction, "serialization"),
            (BatchResponse, "serialization"),
            (Problem, "serialization"),
            (InvalidateRequest, "validation"),
        ],
        ref_template=_REF + "{model}",
    )
    components = document.setdefault("components", {}).setdefault("schemas", {})
    components |= definitions["$defs"]
    document["components"]["securitySchemes"] = {"adminToken": {"type": "http", "scheme": "bearer"}}
    document["paths"] |= {
        "/v1/models/{model}/predict": {"post": _predict()},
        "/v1/models/{model}/predictions/{entity}": {"get": _get()},
        "/v1/models/{model}/predictions:batch": {"post": _batch()},
    }
    return document


def _predict() -> dict[str, Any]:
    return _operation(
        "predict",
        "Predict for one entity",
        "Any entity. With `features`, the answer comes from those alone, and changes nothing that others read.",
        "Prediction",
        _PROBLEMS,
        body="PredictRequest",
    )


def _get() -> dict[str, Any]:
    entity = {
        "name": "entity",
        "in": "path",
        "required": True,
        "description": f"Percent-encoded once. {_ENTITY_RULES} `+` stays `+`. Dot segments go by POST.",
        "schema": {"type": "string"},
    }
    problems = {status: text for status, text in _PROBLEMS.items() if status not in (413, 415)}
    operation = _operation(
        "get_prediction", "Prediction of one entity", "From what is stored, else computed.", "Prediction",
        problems, entity, _IF_NONE_MATCH,
    )  # fmt: skip
    operation["responses"]["200"]["headers"] |= _KEPT_HEADERS
    operation["responses"]["304"] = {
        "description": "The client has the present answer, by its tag.",
        "headers": _KEPT_HEADERS,
    }
    return operation


def _batch() -> dict[str, Any]:
    return _operation(
        "predict_batch",
        "Predict for up to 1,000 entities",
        "A prediction or a problem for each item, in order. The status is 200 even where items have problems.",
        "BatchResponse",
        {status: text for status, text in _PROBLEMS.items() if status not in (500, 504)},
        body="BatchRequest",
    )


def _operation(
    name: str,
    summary: str,
    description: str,
    answer: str,
    problems: dict[int, str],
    *parameters: dict[str, Any],
    body: str | None = None,
) -> dict[str, Any]:
    model = {
        "name": "model",
        "in": "path",
        "required": True,
        "description": "A configured model.",
        "schema": {"type": "string"},
    }
    operation: dict[str, Any] = {
        "tags": ["predictions"],
        "summary": summary,
        "description": description,
        "operationId": name,
        "parameters": [model, *parameters, *_HEADERS],
        "responses": {
            "200": {
                "description": "Answered.",
                "headers": {"Cache-Status": _CACHE_STATUS},
                "content": {"application/json": {"schema": {"$ref": _REF + answer}}},
            }
        }
        | {str(status): _problem(text) for status, text in problems.items()},
    }
    if body is not None:
        content = {"application/json": {"schema": {"$ref": _REF + body}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _problem(description: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": f"{_REF}Problem"}}}
    return {"description": description, "content": content}
