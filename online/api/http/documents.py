"""Outcomes as documents of the endpoint, and as rows of the request log."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

import orjson

from online.api.answering.outcome import Outcome
from online.api.http.problems import problem
from schemas.names import STAGES, is_unicode

_LIVE_TIMING = ", ".join(f"{stage};dur=%.3f" for stage in STAGES).encode()


def result_json(outcome: Outcome, request_id: str, now_ms: int) -> bytes:
    """As `schemas.http.Prediction` or `Problem`."""
    if outcome.error is not None:
        return orjson.dumps(problem(outcome.error, request_id, outcome.entity))
    rendered = outcome.rendered
    if rendered is None:
        outcome.rendered = rendered = render(outcome)
    return b'%b%.3f,"experiment":null,"arm":null,"request_id":%b}' % (
        rendered,
        max(0, now_ms - outcome.computed_at_ms) / 1000,
        orjson.dumps(request_id),
    )


def render(outcome: Outcome) -> bytes:
    """The part of an answer's text that another request for it has too, up to its age."""
    answer, version = outcome.answer, outcome.version
    assert answer is not None
    assert version is not None
    document = {
        "entity": outcome.entity,
        "model": version.model,
        "version": version.name,
        "generation": outcome.generation,
        "source": outcome.source,
        "miss_reason": outcome.miss_reason,
        "label": answer.label,
        "confidence": answer.confidence,
        "outputs": answer.outputs,
        "computed_at": rfc3339(outcome.computed_at_ms),
    }
    return orjson.dumps(document)[:-1] + b',"age_s":'


@lru_cache(maxsize=1024)  # a generation has one time for all its answers
def rfc3339(ms: int) -> str:
    """UTC with milliseconds."""
    return f"{_to_the_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=1024)  # live ones are of this second
def _to_the_second(s: int) -> str:
    return datetime.fromtimestamp(s, UTC).replace(tzinfo=None).isoformat()


def log_row(
    outcome: Outcome, request_id: str, time_us: int, total_us: int, route_us: int, post_us: int
) -> tuple[object, ...]:
    """In the order of `schemas.arrow.REQUEST_LOG`; inputs and outputs are added for the sample only."""
    error, version, live, answer = outcome.error, outcome.version, outcome.live, outcome.answer
    entity, status, code = outcome.entity, 304 if outcome.is_not_modified else 200, None
    if error is not None:
        status, code = error.status, error.code
        entity = entity if entity is not None and is_unicode(entity) else None
    label = confidence = age_ms = None
    if answer is not None:
        label, confidence = answer.label, answer.confidence
        age_ms = max(0, time_us // 1000 - outcome.computed_at_ms)
    queue_us = batch_us = execute_us = batch_rows = None
    if live is not None:
        queue_us, batch_us, execute_us, batch_rows = live.queue_us, live.batch_us, live.execute_us, live.batch_rows
    return (
        *(time_us, request_id, entity, version.name if version else None, outcome.generation, None, None),
        *(outcome.source, outcome.miss_reason, status, code, label, confidence, age_ms),
        *(total_us, route_us, outcome.lookup_us, outcome.features_us, queue_us, batch_us, execute_us, post_us),
        *(batch_rows, outcome.is_caller_features, None, None),
    )


def server_timing(outcomes: Sequence[Outcome], route_us: int, post_us: int) -> bytes:
    """The longest of each stage that was passed; milliseconds."""
    if len(outcomes) == 1 and outcomes[0].live is None and outcomes[0].features_us is None:
        lookup_us = outcomes[0].lookup_us or 0  # a hit: most answers
        return b"route;dur=%.3f, lookup;dur=%.3f, post;dur=%.3f" % (route_us / 1e3, lookup_us / 1e3, post_us / 1e3)
    if len(outcomes) == 1 and (live := outcomes[0].live) is not None:
        passed_us = (
            *(route_us, outcomes[0].lookup_us or 0, outcomes[0].features_us or 0),
            *(live.queue_us, live.batch_us, live.execute_us, post_us),
        )
        return _LIVE_TIMING % tuple([us / 1e3 for us in passed_us])
    stages = [("route", route_us)]
    for name, values in (
        ("lookup", [o.lookup_us for o in outcomes]),
        ("features", [o.features_us for o in outcomes]),
        ("queue", [o.live.queue_us for o in outcomes if o.live]),
        ("batch", [o.live.batch_us for o in outcomes if o.live]),
        ("execute", [o.live.execute_us for o in outcomes if o.live]),
    ):
        passed = [value for value in values if value is not None]
        if passed:
            stages.append((name, max(passed)))
    stages.append(("post", post_us))
    return ", ".join(f"{name};dur={us / 1000:.3f}" for name, us in stages).encode()
