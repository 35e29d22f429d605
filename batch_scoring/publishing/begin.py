"""Begins a night: fixes model, version, moment and generation, and takes the run token."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import fsspec

from batch_scoring.files import absolute, create_json, file_system
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.retire import DELETED
from batch_scoring.publishing.targets import Asked, Target, role_of, targets_of
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas.bundle import Bundle, fetch_bundle
from schemas.keys import run_key as run_token_key
from schemas.manifest import MANIFEST_FILE, bundle_digest
from schemas.names import check_name, generation_name, interval_name, parse_generation, run_path, runs_path
from schemas.routes import RoutesDocument
from schemas.transitions import after

# Steps whose results hold the generation's ordinal.
_OF_AN_ORDINAL = ("score", "publish", "verify", "gate", "activate")


def begin(settings: BatchSettings, asked: Asked) -> dict[str, object]:
    """Makes a run's folder for each version that is to be scored, or finds those of the same key; takes a token.

    Raises:
        Refused: a moment that is none, or lies in the future; nothing that could be scored; a bundle of another
            model, of another version than was asked for, or of a routed version's name but with other contents.
    """
    model = _model_name(asked.model)
    as_of = parse_as_of(asked.as_of)
    with connect(settings) as redis:
        started_at_ms = now_ms(redis)
        if as_of.timestamp() * 1000 > started_at_ms:
            raise Refused(f"as-of {as_of.isoformat()} lies in the future: nothing is known of it yet")
        document = read_document(redis, model)
        targets = targets_of(settings, asked, document, started_at_ms)
        bundles = [_fetch(settings, model, target) for target in targets]
        for found in bundles:
            _check_version(document, found, asked.version)
        # A delta is fenced by the generation that it patches: a new token would take a night's under way from it.
        token = int(redis.get(run_token_key(model)) or 0) if asked.is_delta else 0
        token = token or int(redis.incr(run_token_key(model)))
    ordinal = document.next_ordinal if document else 1
    begun = []
    for target, found in zip(targets, bundles, strict=True):
        draft = Run(
            model=model,
            version=found.manifest.version,
            # Steps, the API and replicas read it from working directories of their own.
            bundle_url=absolute(target.bundle),
            bundle_digest=found.digest,
            as_of=as_of,
            generation=generation_name(as_of, 1),
            ordinal=ordinal,
            started_at_ms=_later_than_live(document, started_at_ms),
            run_key=asked.run_key,
            token=token,
            role=role_of(target, found, document),
            base=target.base,
            url="-",
        )
        run = _again(settings, draft, document) or _make(settings, draft, document)
        LOG.info(
            "%s %s: begun as of %s with token %d, version %s (%s)",
            *(model, run.generation, as_of.isoformat(), token, run.version, run.role),
        )
        one = {"run": run.url, "token": token, "generation": run.generation}
        begun.append(one | {"version": run.version, "role": str(run.role)})
        ordinal = after(ordinal)
    return {"token": token, "runs": begun}


def _model_name(model: str) -> str:
    try:
        return check_name(model, "model")
    except ValueError as error:
        raise Refused(str(error)) from None


def _fetch(settings: BatchSettings, model: str, target: Target) -> Bundle:
    bundle = absolute(target.bundle)
    digest = target.digest or published_digest(bundle)
    found = fetch_bundle(bundle, digest, Path(settings.cache_dir), settings.allowed_bundle_urls)
    if found.manifest.name != model:
        raise Refused(f"{bundle} is a bundle of the model {found.manifest.name}, not of {model}")
    return found


def _later_than_live(document: RoutesDocument | None, now_ms: int) -> int:
    """The time of computation: later than all that is loaded, though the clock was set back meanwhile.

    Of two values of an entity, the one that was computed later counts.
    """
    loaded = [one.computed_at_ms for _, one in document.generations] if document else []
    return max(now_ms, *(at_ms + 1 for at_ms in loaded), 1)


def _check_version(document: RoutesDocument | None, found: Bundle, wanted: str | None) -> None:
    version = found.manifest.version
    if wanted is not None and version != wanted:
        raise Refused(f"the bundle is of version {version}, not {wanted}")
    routed = document.versions.get(version) if document else None
    if routed and routed.bundle_digest != found.digest:
        raise Refused(
            f"version {version} is routed with bundle {routed.bundle_digest[:12]}, and this one is"
            f" {found.digest[:12]}: a version is immutable, so give the new bundle a new one"
        )


def parse_as_of(text: str) -> datetime:
    """Raises Refused for what is no moment with a time zone."""
    try:
        as_of = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"--as-of {text!r} is no moment, such as 2026-11-28T02:00:00Z") from None
    if as_of.tzinfo is None:
        raise Refused(f"--as-of {text!r} has no time zone: write 2026-11-28T02:00:00Z")
    return as_of.astimezone(UTC)


def published_digest(bundle: str) -> str:
    """The digest of the bundle as it lies there: what registering a version trusts, once."""
    try:
        with fsspec.open(f"{bundle.rstrip('/')}/{MANIFEST_FILE}", "rb") as file:
            return bundle_digest(file.read())
    except (OSError, ValueError) as error:
        raise Refused(f"{bundle} cannot be read: {error}") from None


def _again(settings: BatchSettings, draft: Run, document: RoutesDocument | None) -> Run | None:
    """The run that began with this key before, under its new token; None where there is none to go on with."""
    for run in _runs(settings, draft):
        if (run.run_key, run.version, run.base) != (draft.run_key, draft.version, draft.base):
            continue
        if run.bundle_digest != draft.bundle_digest:
            raise Refused(
                f"run {run.run_key} began with bundle {run.bundle_digest[:12]}: use a new run for"
                f" {draft.bundle_digest[:12]}"
            )
        again = run.model_copy(update={"token": draft.token, "role": draft.role})
        if _has_lost_ordinal(run, document):
            LOG.info(
                "%s %s: its ordinal went live with another generation, it is scored again",
                run.model,
                run.generation,
            )
            again = again.model_copy(update={"ordinal": draft.ordinal})
            for step in _OF_AN_ORDINAL:
                again.forget(step)
        again.save()
        again.forget(DELETED)
        return again
    return None


def _has_lost_ordinal(run: Run, document: RoutesDocument | None) -> bool:
    """Whether the ordinal in the run's packed values is another generation's, and the run may yet go live."""
    if document is None or (document.interval and interval_name(run.as_of) < document.interval):
        return False
    return any(one.ordinal == run.ordinal and one.id != run.generation for _, one in document.generations)


def _make(settings: BatchSettings, draft: Run, document: RoutesDocument | None) -> Run:
    """Saves the run under the first free number of its interval: no run, and nothing live, has had it."""
    taken = set[str]()
    if document:
        taken |= {one.id for _, one in (*document.generations, *document.retired_deltas)}
        taken |= document.feature_tables.keys() | {table.id for table in document.retired_features}
    filesystem, root = file_system(f"{settings.data_url.rstrip('/')}/{runs_path(draft.model)}")
    taken |= {path.rpartition("/")[2] for path in filesystem.glob(f"{root}/{interval_name(draft.as_of)}-*")}
    numbers = [parse_generation(name)[1] for name in taken if name.startswith(interval_name(draft.as_of))]
    number = 1 + max(numbers, default=0)
    while True:
        generation = generation_name(draft.as_of, number)
        url = f"{absolute(settings.data_url)}/{run_path(draft.model, generation)}/run.json"
        run = draft.model_copy(update={"generation": generation, "url": url})
        if create_json(url, run.model_dump(mode="json")):
            return run
        number += 1  # another run of this interval begins at this very moment


def _runs(settings: BatchSettings, draft: Run) -> Iterator[Run]:
    """The runs of the interval, newest first."""
    data = absolute(settings.data_url)
    filesystem, root = file_system(f"{data}/{runs_path(draft.model)}")
    paths = filesystem.glob(f"{root}/{interval_name(draft.as_of)}-*/run.json")
    names = [path.split("/")[-2] for path in paths]
    for name in sorted(names, key=lambda name: parse_generation(name)[1], reverse=True):
        try:
            yield Run.load(f"{data}/{run_path(draft.model, name)}/run.json")
        except Refused as fault:  # cut short while it began
            LOG.warning("left out: %s", fault)
