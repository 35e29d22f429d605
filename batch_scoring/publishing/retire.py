"""Deletes what nobody is routed to any more: by number, never by a scan of keys."""

import json
from collections.abc import Iterator

from redis import Redis

from batch_scoring.files import file_system
from batch_scoring.publishing.document import change_document, read_document
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas import routes
from schemas.keys import bucket_key, feature_key, generation_manifest_key
from schemas.names import runs_path
from schemas.routes import Retired, RoutesDocument

STEP = "retire"
_CHUNK = 500


def retire(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Takes old generations out of the document, then out of Redis, with those that failed nights left.

    Nothing is deleted sooner than `retire_after_s` after the last switch: a request may still be reading it. What
    is too young stays for the next night.
    """
    with connect(settings) as redis:
        document = read_document(redis, run.model)
        if document is None:
            raise Refused(f"{run.model} has no routes document: activate first")
        idle_s = (now_ms(redis) - document.changed_at_ms) / 1000
        if idle_s < settings.retire_after_s:
            # What this switch replaced is in use for a while. Leftovers of failed nights never were.
            LOG.info("%s: switched %.0f s ago, old generations stay until the next night", run.model, idle_s)
            retired = Retired()
        else:
            retired = _leave_routes(redis, run, settings)
        for version, generation in retired.generations:
            _delete_generation(redis, run.model, version, generation.id, generation.buckets)
        for table in retired.features:
            _delete_features(redis, run.model, table.id, table.buckets)
        leftovers = _delete_leftovers(redis, run, settings)
    return {
        "generations": [generation.id for _, generation in retired.generations],
        "feature_tables": [table.id for table in retired.features],
        "versions": list(retired.versions),
        "leftovers": leftovers,
    }


def _leave_routes(redis: Redis, run: Run, settings: BatchSettings) -> Retired:
    """First the document, then the keys: nobody is ever routed to what is being deleted."""
    found: list[Retired] = []

    def transition(document: RoutesDocument | None) -> RoutesDocument:
        if document is None:
            raise Refused(f"{run.model} has no routes document")
        after, retired = routes.retire(document, settings.keep_generations, settings.keep_versions, now_ms(redis))
        found.append(retired)
        return after

    change_document(redis, run.model, "retire", transition)
    return found[-1]


def _delete_generation(redis: Redis, model: str, version: str, generation: str, buckets: int) -> None:
    keys = [bucket_key(model, version, generation, bucket) for bucket in range(buckets)]
    _unlink(redis, [*keys, generation_manifest_key(model, version, generation)])
    LOG.info("%s %s: deleted %d buckets", model, generation, buckets)


def _delete_features(redis: Redis, model: str, table: str, buckets: int) -> None:
    _unlink(redis, [feature_key(model, table, bucket) for bucket in range(buckets)])
    LOG.info("%s %s: deleted %d buckets of features", model, table, buckets)


def _unlink(redis: Redis, keys: list[str]) -> None:
    pipeline = redis.pipeline(transaction=False)
    for place, key in enumerate(keys):
        pipeline.unlink(key)
        if place % _CHUNK == _CHUNK - 1:
            pipeline.execute()
    pipeline.execute()


def _delete_leftovers(redis: Redis, run: Run, settings: BatchSettings) -> list[str]:
    """What earlier nights loaded and never activated. Runs at or after this one are somebody's work."""
    document = read_document(redis, run.model)
    assert document is not None
    routed = {g.id for version in document.versions.values() for g in version.generations}
    tables = {
        document.features,
        document.previous.features if document.previous else None,
        *document.retired_features,
    }
    kept_tables = {table.id for table in tables if table}
    deleted = []
    for old, reports in _earlier_runs(run, settings):
        if old.generation in routed or "cleared" in reports:
            continue
        if "score" in reports:
            _delete_generation(redis, run.model, old.version, old.generation, old.count("score", "buckets"))
        if "features" in reports and old.generation not in kept_tables:
            _delete_features(redis, run.model, old.generation, old.count("features", "buckets"))
        if old.generation not in kept_tables:
            old.finish("cleared", {"by": run.generation})
        deleted.append(old.generation)
    return deleted


def _earlier_runs(run: Run, settings: BatchSettings) -> Iterator[tuple[Run, set[str]]]:
    filesystem, root = file_system(f"{settings.data_url.rstrip('/')}/{runs_path(run.model)}")
    for path in sorted(filesystem.glob(f"{root}/*/run.json")):
        old = Run.model_validate(json.loads(filesystem.cat_file(path)))
        if old.started_at_ms < run.started_at_ms:
            folder = path.rpartition("/")[0]
            names = [name.rpartition("/report-")[2] for name in filesystem.glob(f"{folder}/report-*.json")]
            yield old, {name.removesuffix(".json") for name in names}
