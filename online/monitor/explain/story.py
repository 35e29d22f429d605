"""One row of the request log as a story: a document for `--json`, and the same in words. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from online.monitor.explain.words import CODES, REASONS, REST, SOURCES, STAGES, printable
from online.monitor.text import NONE, age, ms
from schemas.names import WITHHELD

_BAR = 40


def story(model: str, row: Mapping[str, Any]) -> dict[str, object]:
    """What is known of one answer; times in ms, moments in UTC. Columns an older log lacks are null."""
    stages = {name: value / 1e3 for name in STAGES if (value := row.get(f"{name}_us")) is not None}
    total = row["total_us"] / 1e3
    named = (
        "request_id",
        "entity",
        "version",
        "generation",
        "experiment",
        "arm",
        "source",
        "miss_reason",
        "status",
    )
    return {
        "time": _moment(row["time"]),
        "model": model,
        **{name: row.get(name) for name in (*named, "code", "label", "confidence", "age_ms", "batch_rows")},
        "is_caller_features": bool(row.get("is_caller_features")),
        "total_ms": total,
        "stages_ms": stages,
        "other_ms": round(max(0.0, total - sum(stages.values())), 3),
        "happened": list(_happened(row)),
        "inputs": _inputs(row.get("inputs")),
        "outputs": row.get("outputs"),
    }


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """The story for a terminal."""
    entity = told["entity"]
    yield f"Request {printable(str(told['request_id']))}"
    yield f"  when        {told['time']}"
    yield f"  model       {told['model']}"
    yield f"  entity      {NONE if entity is None else printable(entity)}"
    yield f"  version     {told['version'] or NONE}"
    yield f"  generation  {told['generation'] or NONE}"
    if told["experiment"] is not None:
        yield f"  experiment  {told['experiment']}, arm {told['arm']}"
    yield f"  answer      {_answer(told)}"
    yield ""
    yield "What happened"
    yield from (f"  - {sentence}" for sentence in told["happened"])
    yield ""
    yield f"Where {ms(told['total_ms'])} ms went"
    yield from _bars(told)
    yield ""
    yield from _sample(told)


def _answer(told: Mapping[str, Any]) -> str:
    if told["code"] is not None:
        return f"status {told['status']}, {told['code']}"
    parts = [f"status {told['status']}", f"source {told['source']}"]
    if told["label"] is not None:
        parts.append(f"label {printable(told['label'])}")
    if told["confidence"] is not None:
        parts.append(f"confidence {told['confidence']:.4g}")
    return ", ".join(parts)


def _happened(row: Mapping[str, Any]) -> Iterator[str]:
    source, reason, code = row.get("source"), row.get("miss_reason"), row.get("code")
    if reason is not None:
        why = REASONS.get(reason, "The reason is not one known here.")
        yield f"No precomputed answer was used ({reason}). {why}"
    if row.get("is_caller_features"):
        yield "The features came with the request."
    elif row.get("features_us") is not None:
        yield "The features were read from the feature table."
    if row.get("execute_us") is not None:
        yield (
            f"The row waited {ms(row['queue_us'] / 1e3)} ms in the replica's queue, then ran in a batch of "
            f"{row.get('batch_rows')} for {ms(row['execute_us'] / 1e3)} ms."
        )
    if source is not None:
        yield f"It was {SOURCES.get(source, source)}{_computed(row)}."
    if row["status"] == 304:
        yield "The client had this answer already, and was told only that."
    if code is not None:
        yield f"It failed with {row['status']} {code}. {CODES.get(code, 'The code is not one known here.')}"


def _computed(row: Mapping[str, Any]) -> str:
    age_ms = row.get("age_ms")
    if age_ms is None or row.get("source") == "default":
        return ""
    when = _moment(datetime.fromtimestamp(row["time"].timestamp() - age_ms / 1e3, UTC))
    return f"; the value was computed {when}, {age(age_ms / 1e3)} before"


def _bars(told: Mapping[str, Any]) -> Iterator[str]:
    longest = max(told["total_ms"], 1e-6)
    for name, passed in (*told["stages_ms"].items(), ("other", told["other_ms"])):
        bar = "█" * round(_BAR * min(1.0, passed / longest)) or "▏"
        yield f"  {name:<9}{ms(passed):>9} ms  {bar:<{_BAR}}  {STAGES.get(name, REST)}"


def _sample(told: Mapping[str, Any]) -> Iterator[str]:
    if told["inputs"] is None and told["outputs"] is None:
        yield "Inputs and outputs are kept of a sample of answers (API_LOG_SAMPLE); this is none of it."
        return
    yield "Inputs"
    inputs = told["inputs"]
    if inputs is None:
        yield "  not at hand when it was answered"
    else:
        yield from (f"  {printable(name)} = {_value(value)}" for name, value in inputs.items())
    yield "Outputs, as stored"
    outputs = ["withheld" if value is None else f"{value:.6g}" for value in told["outputs"] or ()]
    yield f"  {', '.join(outputs) or NONE}"


def _value(value: object) -> str:
    if value == {WITHHELD: True}:
        return "withheld (API_LOG_NEVER)"
    return printable(value) if isinstance(value, str) else orjson.dumps(value).decode()


def _inputs(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
