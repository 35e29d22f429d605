"""What is known of a model's releases: the routes document and history of Redis, and the run folders."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import orjson
from redis import Redis

from batch_scoring.publishing.document import read_document
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import now_ms
from schemas.history import Change, read_history
from schemas.keys import generation_manifest_key, history_key
from schemas.names import check_name
from schemas.releases import Release, active_since, fallback_set, live_set, releases, rollback_set
from schemas.routes import MAX_HISTORY, RoutesDocument
from schemas.run_folders import models_with_runs, read_runs


@dataclass(frozen=True, slots=True)
class ModelReleases:
    """`in_redis`: what a generation's manifest says, by (version, generation); `left_out` as in RunFolders."""

    model: str
    now_ms: int
    document: RoutesDocument | None
    changes: list[Change]
    releases: list[Release]
    in_redis: dict[tuple[str, str], str]
    left_out: int

    @property
    def since(self) -> Change | None:
        """The change that made live what is live."""
        return active_since(self.document, self.changes) if self.document else None


def look(redis: Redis, settings: BatchSettings, model: str) -> ModelReleases:
    """Raises Refused where there is neither a routes document nor a run; redis-py's errors; OSError."""
    document = read_document(redis, check_model(model))
    lines = cast(list[bytes], redis.lrange(history_key(model), 0, MAX_HISTORY - 1))  # the client decodes nothing
    changes = read_history(lines)
    named = {one.id for _, one in document.generations} if document else set()
    folders = read_runs(settings.data_url, model, named)
    if document is None and not folders.runs:
        raise Refused(f"nothing is known of {model}: {_known_models(settings)}")
    found = releases(document, changes, folders)
    states = _in_redis(redis, model, found)
    return ModelReleases(model, now_ms(redis), document, changes, found, states, folders.left_out)


def check_model(model: str) -> str:
    """Raises Refused where it is no model's name."""
    try:
        return check_name(model, "model")
    except ValueError as error:
        raise Refused(str(error)) from None


def as_json(found: ModelReleases, history: int) -> dict[str, object]:
    """The document of `--json`. Times are ISO 8601, or milliseconds since 1970 by Redis's clock."""
    document, since = found.document, found.since
    back = rollback_set(document) if document else None
    kept = fallback_set(document) if document else None
    return {
        "model": found.model,
        "active": _pair(live_set(document)) if document else None,
        "active_since": _change(since),
        "rollback_to": _pair(back) if back else None,
        "fallback": _pair(kept) if kept else None,
        "revision": list(document.order) if document else None,
        "features": document.features.model_dump(mode="json") if document and document.features else None,
        "releases": [_release(one, found) for one in found.releases],
        "older_runs_left_out": found.left_out,
        "history": [_change(change) for change in found.changes[:history]],
    }


def _release(one: Release, found: ModelReleases) -> dict[str, object]:
    age_s = (found.now_ms - one.computed_at_ms) // 1000 if one.computed_at_ms is not None else None
    return {
        "version": one.version,
        "generation": one.generation,
        "state": one.state,
        "in_redis": found.in_redis[one.version, one.generation],
        "rows": one.rows,
        "buckets": one.buckets,
        "deltas": one.deltas,
        "reckoned_bytes": one.reckoned_bytes,
        "computed_at_ms": one.computed_at_ms,
        "age_s": age_s,
        "gates": [
            {"step": gate.step, "outcome": gate.outcome, "at": gate.at, "words": gate.words} for gate in one.gates
        ],
        "activated": _change(one.activated),
    }


def _change(change: Change | None) -> dict[str, object] | None:
    return change.model_dump(mode="json", by_alias=True) if change else None


def _pair(pair: tuple[str, str | None]) -> dict[str, object]:
    return {"version": pair[0], "generation": pair[1]}


def _in_redis(redis: Redis, model: str, found: Iterable[Release]) -> dict[tuple[str, str], str]:
    keys = [(one.version, one.generation) for one in found]
    pipeline = redis.pipeline(transaction=False)
    for version, generation in keys:
        pipeline.get(generation_manifest_key(model, version, generation))
    return {key: _manifest_state(raw) for key, raw in zip(keys, pipeline.execute(), strict=True)}


def _manifest_state(raw: bytes | None) -> str:
    if raw is None:
        return "not there"
    try:
        return str(orjson.loads(raw)["state"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "unreadable"


def _known_models(settings: BatchSettings) -> str:
    names = models_with_runs(settings.data_url)
    if not names:
        return f"no model has a run under BATCH_DATA_URL, which is {settings.data_url}"
    return f"the models with runs are {', '.join(names)}"
