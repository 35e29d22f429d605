"""Takes old generations out of service and, some time later, out of Redis: by number, never by a scan of keys.

In two steps, since a request that began before a change may still read what the change took out of service. A
night takes out what is too old now; what was taken out at least `retire_after_s` ago is deleted, by the same call
or by the next night before it writes. What is waiting is kept in `retired.json` beside the runs.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel
from redis import Redis

from batch_scoring.fail_points import reach
from batch_scoring.files import file_system, read_json, write_json
from batch_scoring.publishing.document import change_document, read_document
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import Pace, connect, now_ms, unlink
from schemas import transitions
from schemas.keys import MEAN_BUCKET_FIELDS, bucket_key, feature_key, generation_manifest_key
from schemas.names import runs_path
from schemas.routes import RoutesDocument
from schemas.transitions import Retired

STEP = "retire"
DELETED = "deleted"


class Loaded(NamedTuple):
    """A generation in Redis or, without version, a feature table."""

    version: str | None
    id: str
    buckets: int


class _Waiting(BaseModel):
    """`entries`: what was taken out of service, and when by Redis's clock."""

    entries: tuple[tuple[Loaded, int], ...] = ()


def retire(run: Run, settings: BatchSettings, by: str | None = None) -> dict[str, object]:
    """Raises Refused where nothing is live yet."""
    with connect(settings) as redis:
        if read_document(redis, run.model) is None:
            raise Refused(f"{run.model} has no routes document: activate first")
        reach("retire.begun", settings.fail_point)
        retired = _take_out(redis, run, settings, by)
        reach("retire.out", settings.fail_point)
        deleted = sweep(redis, run, settings)
    return {
        "generations": [generation.id for _, generation in retired.generations],
        "feature_tables": [table.id for table in retired.features],
        "versions": list(retired.versions),
        "deleted": deleted,
    }


def sweep(redis: Redis, run: Run, settings: BatchSettings) -> list[str]:
    """Deletes what has been out of service long enough, and what earlier runs loaded and never activated.

    Nothing that the routes document names, nothing of this run, and nothing of a run that began later is touched:
    an earlier run cannot activate any more, since its token is not the newest.
    """
    document, now = read_document(redis, run.model), now_ms(redis)
    routed = _routed(document) if document else set()
    waiting = dict(_waiting(run, settings).entries)
    young = {one for one, at_ms in waiting.items() if now - at_ms < settings.retire_after_s * 1000}
    deleted = []
    for one in waiting.keys() - young:
        if (one.version, one.id) not in routed and one.id != run.generation:
            deleted.append(_delete(redis, run.model, one, settings))
    for old, loaded in _leftovers(run, settings):
        names = {(one.version, one.id) for one in loaded}
        if names & (routed | {(one.version, one.id) for one in young}):
            continue
        deleted += [_delete(redis, run.model, one, settings) for one in loaded]
        old.finish(DELETED, {"by": run.generation})
    if waiting:
        kept = [(one, at_ms) for one, at_ms in waiting.items() if one in young]
        _keep(run, settings, _Waiting(entries=tuple(kept)))
    return sorted(set(deleted))


def _take_out(redis: Redis, run: Run, settings: BatchSettings, by: str | None) -> Retired:
    found: list[Retired] = []

    def transition(document: RoutesDocument | None) -> RoutesDocument:
        if document is None:
            raise Refused(f"{run.model} has no routes document")
        now = now_ms(redis)
        after, retired = transitions.retire(document, settings.keep_generations, settings.keep_versions, now)
        found.append(retired)
        # Remembered first: killed in between, what is still routed is skipped by the sweep.
        gone = [Loaded(version, one.id, one.buckets) for version, one in retired.generations]
        gone += [Loaded(None, table.id, table.buckets) for table in retired.features]
        if gone:
            waiting = dict(_waiting(run, settings).entries) | dict.fromkeys(gone, now)
            _keep(run, settings, _Waiting(entries=tuple(waiting.items())))
        return after

    change_document(redis, run.model, "retire", transition, by=by)
    return found[-1]


def _routed(document: RoutesDocument) -> set[tuple[str | None, str]]:
    """What the document names, previous state included."""
    named: set[tuple[str | None, str]] = {(None, table) for table in document.feature_tables}
    named |= {(None, table.id) for table in document.retired_features}
    named |= {(version, one.id) for version, one in (*document.generations, *document.retired_deltas)}
    return named


def _leftovers(run: Run, settings: BatchSettings) -> Iterator[tuple[Run, list[Loaded]]]:
    """Earlier runs, and what of each may be in Redis."""
    filesystem, root = file_system(f"{settings.data_url.rstrip('/')}/{runs_path(run.model)}")
    for path in sorted(filesystem.glob(f"{root}/*/run.json")):
        url = path if "://" not in settings.data_url else str(filesystem.unstrip_protocol(path))
        try:
            old = Run.load(url)
        except Refused as fault:  # cut short while it began: it has loaded nothing
            LOG.warning("left out: %s", fault)
            continue
        if old.token >= run.token or old.generation == run.generation or old.report(DELETED):
            continue
        loaded = []
        if old.report("score"):
            loaded.append(Loaded(old.version, old.generation, old.count("score", "buckets")))
        if old.report("features-rows"):
            loaded.append(Loaded(None, old.generation, old.count("features-rows", "buckets")))
        if loaded:
            yield old, loaded


def _delete(redis: Redis, model: str, one: Loaded, settings: BatchSettings) -> str:
    if one.version is None:
        keys = [feature_key(model, one.id, bucket) for bucket in range(one.buckets)]
    else:
        keys = [bucket_key(model, one.version, one.id, bucket) for bucket in range(one.buckets)]
        # First, so that a generation that is going is never taken for whole.
        keys.insert(0, generation_manifest_key(model, one.version, one.id))
    what = "feature table" if one.version is None else f"version {one.version}"
    gone = unlink(redis, keys, Pace.of(settings, weight=MEAN_BUCKET_FIELDS))
    LOG.info("%s %s: deleted %d keys of its %s", model, one.id, gone, what)
    reach("retire.half", settings.fail_point)
    return one.id


def _waiting_url(run: Run, settings: BatchSettings) -> str:
    return f"{settings.data_url.rstrip('/')}/{runs_path(run.model)}/retired.json"


def _waiting(run: Run, settings: BatchSettings) -> _Waiting:
    return _Waiting.model_validate(read_json(_waiting_url(run, settings)) or {})


def _keep(run: Run, settings: BatchSettings, waiting: _Waiting) -> None:
    write_json(_waiting_url(run, settings), waiting.model_dump(mode="json"))
