"""Begins a night: fixes model, version, moment and generation, and takes the run token."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import fsspec

from batch_scoring.files import file_system
from batch_scoring.publishing.document import read_document
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas.bundle import fetch_bundle
from schemas.keys import run_key as run_token_key
from schemas.manifest import MANIFEST_FILE, bundle_digest
from schemas.names import check_name, generation_name, parse_generation, run_path, runs_path


def begin(
    settings: BatchSettings, model: str, bundle: str, as_of_text: str, run_key: str, digest: str | None
) -> Mapping[str, object]:
    """Makes the run's folder, or finds that of the same key, and takes a new token.

    Raises:
        Refused: a moment that is none, or lies in the future; a bundle of another model, or of a routed version's
            name but with other contents.
    """
    try:
        check_name(model, "model")
    except ValueError as error:
        raise Refused(str(error)) from None
    as_of = parse_as_of(as_of_text)
    digest = digest or published_digest(bundle)
    found = fetch_bundle(bundle, digest, Path(settings.cache_dir), settings.allowed_bundle_urls)
    if found.manifest.name != model:
        raise Refused(f"{bundle} is a bundle of the model {found.manifest.name}, not of {model}")
    with connect(settings) as redis:
        started_at_ms = now_ms(redis)
        if as_of.timestamp() * 1000 > started_at_ms:
            raise Refused(f"as-of {as_of.isoformat()} lies in the future: nothing is known of it yet")
        document = read_document(redis, model)
        routed = document.versions.get(found.manifest.version) if document else None
        if routed and routed.bundle_digest != digest:
            raise Refused(
                f"version {found.manifest.version} is routed with bundle {routed.bundle_digest[:12]}, and this one"
                f" is {digest[:12]}: a version is immutable, so give the new bundle a new one"
            )
        token = int(redis.incr(run_token_key(model)))
    run = _find(settings, model, run_key, as_of)
    if run is None:
        run = _make(
            settings,
            Run(
                model=model,
                version=found.manifest.version,
                bundle_url=bundle,
                bundle_digest=digest,
                as_of=as_of,
                generation=generation_name(as_of, 1),
                ordinal=document.next_ordinal if document else 1,
                started_at_ms=started_at_ms,
                run_key=run_key,
                url="-",
            ),
        )
    elif run.bundle_digest != digest:
        raise Refused(f"run {run_key} began with bundle {run.bundle_digest[:12]}: use a new run for {digest[:12]}")
    LOG.info("%s %s: begun as of %s with token %d", model, run.generation, as_of.isoformat(), token)
    return {"run": run.url, "token": token, "generation": run.generation, "version": run.version}


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


def _find(settings: BatchSettings, model: str, run_key: str, as_of: datetime) -> Run | None:
    """The run of this key and moment, if it began before."""
    filesystem, root = file_system(f"{settings.data_url.rstrip('/')}/{runs_path(model)}")
    prefix = generation_name(as_of, 1).rpartition("-")[0]
    if not filesystem.exists(root):
        return None
    for path in sorted(filesystem.glob(f"{root}/{prefix}-*/run.json")):
        run = Run.model_validate(json.loads(filesystem.cat_file(path)))
        if run.run_key == run_key:
            return run
    return None


def _make(settings: BatchSettings, draft: Run) -> Run:
    """Saves the run under the first free number of its interval."""
    data = settings.data_url.rstrip("/")
    filesystem, root = file_system(f"{data}/{runs_path(draft.model)}")
    interval = draft.generation.rpartition("-")[0]
    taken = [path.rpartition("/")[2] for path in filesystem.glob(f"{root}/{interval}-*")]
    number = 1 + max((parse_generation(name)[1] for name in taken), default=0)
    generation = generation_name(draft.as_of, number)
    base = data if "://" in data else str(Path(data).absolute())
    url = f"{base}/{run_path(draft.model, generation)}/run.json"
    run = draft.model_copy(update={"generation": generation, "url": url})
    run.save()
    return run
