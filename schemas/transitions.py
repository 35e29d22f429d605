"""The pure transitions of the routes document: every way in which what is live may change.

Each takes the present document and gives the next, under its next revision; who applies it retries it on a newer
one. No I/O, no clock: `now_ms` is Redis's.
"""

from dataclasses import dataclass

from schemas.codec import MAX_ORDINAL
from schemas.names import interval_of
from schemas.routes import (
    Activation,
    Fallback,
    FeatureTable,
    Generation,
    Previous,
    RoutesDocument,
    Version,
)


class RefusedTransition(ValueError):
    """The change is not allowed from the present state; the message says why."""


@dataclass(frozen=True, slots=True)
class Retired:
    """What nobody is routed to any more: (version, generation) pairs, deltas among them, and feature tables."""

    generations: tuple[tuple[str, Generation], ...] = ()
    features: tuple[FeatureTable, ...] = ()
    versions: tuple[str, ...] = ()


def first_document(offer: Activation, now_ms: int) -> RoutesDocument:
    """The document of a Redis that has none: a new epoch that begins at `now_ms`."""
    version = Version(
        ordinal=1, bundle_url=offer.bundle_url, bundle_digest=offer.bundle_digest, generations=(offer.generation,)
    )
    return RoutesDocument(
        model=offer.model,
        epoch=now_ms,
        revision=1,
        stable=offer.version,
        versions={offer.version: version},
        next_ordinal=after(max(1, offer.generation.ordinal)),
        features=offer.features,
        token=offer.token,
        interval=interval_of(offer.generation.id),
        changed_at_ms=now_ms,
    )


def activate(document: RoutesDocument, offer: Activation, now_ms: int) -> RoutesDocument:
    """Makes the offered generation the newest of its version, and that version stable.

    Activating what is already live gives the same state under a new revision. Where the version changes, the one
    before becomes the fallback.

    Raises:
        RefusedTransition: an older run token, an older interval, or the version's name with another bundle.
    """
    _check_age(document, offer)
    update = _placed(document, offer) | {"stable": offer.version, "interval": interval_of(offer.generation.id)}
    live = document.live_generation(document.stable)
    if document.stable == offer.version and live is not None and live.id == offer.generation.id:
        return _changed(document, now_ms, update | {"next_ordinal": document.next_ordinal})
    update |= {"previous": _as_previous(document), "features": offer.features or document.features}
    if document.stable != offer.version:
        update["fallback"] = _as_fallback(document, now_ms)
    return _changed(document, now_ms, update)


def renew(document: RoutesDocument, offer: Activation, now_ms: int) -> RoutesDocument:
    """Gives the fallback a newer generation; nobody's answer changes. A rollback to it then goes to this one.

    Raises:
        RefusedTransition: the version is no longer the fallback, or as `activate`.
    """
    fallback = document.fallback
    if fallback is None or fallback.version != offer.version:
        kept = f"{fallback.version} is" if fallback else "none is"
        raise RefusedTransition(f"version {offer.version} is no longer kept for a rollback, {kept}")
    newest = document.live_generation(offer.version)
    if newest is not None and interval_of(offer.generation.id) < interval_of(newest.id):
        raise RefusedTransition(f"{newest.id} of version {offer.version} is newer than {offer.generation.id}")
    _check_token(document, offer)
    update = _placed(document, offer)
    update["fallback"] = fallback.model_copy(update={"features": offer.features or fallback.features})
    previous = document.previous
    if previous is not None and previous.stable == offer.version:
        renewed = {"generation": offer.generation.id, "features": offer.features or previous.features}
        update["previous"] = previous.model_copy(update=renewed)
    return _changed(document, now_ms, update)


def patch(document: RoutesDocument, offer: Activation, base: str, now_ms: int) -> RoutesDocument:
    """Lays the offered delta over the live generation `base`, in place of an earlier one; without rows none.

    The feature table, which is whole, becomes the delta's.

    Raises:
        RefusedTransition: another generation than `base` is live, or a newer delta patches it.
    """
    live = document.live_generation(document.stable)
    if document.stable != offer.version or live is None or live.id != base:
        now = f"{live.id if live else 'none'} of version {document.stable} is"
        raise RefusedTransition(
            f"a delta patches {base} of version {offer.version}, which is not live, {now}: begin another"
        )
    interval = interval_of(offer.generation.id)
    if document.interval is not None and interval < document.interval:
        raise RefusedTransition(f"interval {interval} is older than {document.interval}, which is live")
    deltas = (offer.generation,) if offer.generation.rows else ()
    version = document.versions[offer.version]
    patched = live.model_copy(update={"deltas": deltas})
    update: dict[str, object] = {
        "versions": document.versions
        | {offer.version: version.model_copy(update={"generations": (patched, *version.generations[1:])})},
        "next_ordinal": after(max(document.next_ordinal, offer.generation.ordinal)),
        "features": offer.features or document.features,
        "interval": interval,
    }
    return _changed(document, now_ms, update)


def rollback(document: RoutesDocument, now_ms: int) -> RoutesDocument:
    """Back to what was live before the last activation; a second rollback goes forward again.

    Raises:
        RefusedTransition: there is no previous state, or it has been retired.
    """
    previous = document.previous
    if previous is None:
        raise RefusedTransition("nothing was live before the present state")
    version = document.versions.get(previous.stable)
    if version is None:
        raise RefusedTransition(f"version {previous.stable} has been retired")
    chosen = [g for g in version.generations if g.id == previous.generation]
    if previous.generation is not None and not chosen:
        raise RefusedTransition(f"generation {previous.generation} has been retired")
    rest = [g for g in version.generations if g.id != previous.generation]
    first = version.model_copy(update={"generations": (*chosen, *rest)})
    return _switched(document, previous.stable, first, previous.features, now_ms)


def switch(document: RoutesDocument, version: str, now_ms: int) -> RoutesDocument:
    """To the newest generation of another version that is loaded, whatever was live in between.

    Raises:
        RefusedTransition: it is live already, is not there, or has no generation.
    """
    if version == document.stable:
        raise RefusedTransition(f"version {version} is live already")
    found = document.versions.get(version)
    if found is None:
        others = ", ".join(sorted(document.versions.keys() - {document.stable})) or "none"
        raise RefusedTransition(f"version {version} is not loaded; beside the live one there are: {others}")
    if not found.generations:
        raise RefusedTransition(f"version {version} has no generation: every request would be computed live")
    fallback = document.fallback
    features = fallback.features if fallback is not None and fallback.version == version else None
    return _switched(document, version, found, features, now_ms)


def retire(
    document: RoutesDocument, keep_generations: int, keep_versions: int, now_ms: int
) -> tuple[RoutesDocument, Retired]:
    """Takes generations and versions beyond the given numbers out of the document.

    What is live, previous, fallback or named by an experiment, shadow or cascade always stays.
    """
    pinned = set(document.routed_versions)
    pinned |= {document.previous.stable} if document.previous else set()
    pinned |= {document.fallback.version} if document.fallback else set()
    by_age = sorted(document.versions, key=lambda name: _newest(document.versions[name]), reverse=True)
    kept = [name for place, name in enumerate(by_age) if name in pinned or place < keep_versions]
    gone: list[tuple[str, Generation]] = []
    versions: dict[str, Version] = {}
    previous_id = document.previous.generation if document.previous else None
    for name, found in document.versions.items():
        stay = tuple(
            g
            for place, g in enumerate(found.generations)
            if name in kept and (place < keep_generations or g.id == previous_id)
        )
        for one in found.generations:
            if one not in stay:
                gone += [(name, one), *((name, delta) for delta in one.deltas)]
        if name in kept:
            versions[name] = found.model_copy(update={"generations": stay})
    dropped = tuple(name for name in document.versions if name not in versions)
    retired = Retired(
        generations=(*gone, *document.retired_deltas), features=document.retired_features, versions=dropped
    )
    if retired == Retired():
        return document, retired
    update: dict[str, object] = {"versions": versions, "retired_features": (), "retired_deltas": ()}
    return document.model_copy(update=_next(document, now_ms) | update), retired


def after(ordinal: int) -> int:
    """The next ordinal; they wrap long before two generations that are kept could share one."""
    return ordinal % MAX_ORDINAL + 1


def _check_age(document: RoutesDocument, offer: Activation) -> None:
    _check_token(document, offer)
    interval = interval_of(offer.generation.id)
    if document.interval is not None and interval < document.interval:
        raise RefusedTransition(f"interval {interval} is older than {document.interval}, which is live")


def _check_token(document: RoutesDocument, offer: Activation) -> None:
    if offer.token < document.token:
        raise RefusedTransition(
            f"run token {offer.token} is older than {document.token}: a newer run has activated"
        )


def _placed(document: RoutesDocument, offer: Activation) -> dict[str, object]:
    """The offered generation as the newest of its version. Raises RefusedTransition for another bundle of it."""
    known = document.versions.get(offer.version)
    if known is not None and known.bundle_digest != offer.bundle_digest:
        raise RefusedTransition(
            f"version {offer.version} is routed with bundle {known.bundle_digest[:12]},"
            f" not {offer.bundle_digest[:12]}: a version is immutable, give the new bundle a new name"
        )
    others = tuple(g for g in (known.generations if known else ()) if g.id != offer.generation.id)
    version = Version(
        ordinal=known.ordinal if known else document.next_ordinal,
        bundle_url=offer.bundle_url,
        bundle_digest=offer.bundle_digest,
        generations=(offer.generation, *others),
    )
    return {
        "versions": {**document.versions, offer.version: version},
        "next_ordinal": after(max(document.next_ordinal, offer.generation.ordinal)),
        "token": offer.token,
    }


def _switched(
    document: RoutesDocument, stable: str, version: Version, features: FeatureTable | None, now_ms: int
) -> RoutesDocument:
    update: dict[str, object] = {
        "stable": stable,
        "versions": {**document.versions, stable: version},
        "features": features or document.features,
        "previous": _as_previous(document),
    }
    if stable != document.stable:
        update["fallback"] = _as_fallback(document, now_ms)
    return _changed(document, now_ms, update)


def _changed(document: RoutesDocument, now_ms: int, update: dict[str, object]) -> RoutesDocument:
    """The next document; what it no longer refers to is kept in mind for the next retirement."""
    changed = document.model_copy(update=_next(document, now_ms) | update)
    tables = [*document.retired_features, *document.feature_tables.values()]
    kept = {(name, one.id) for name, one in changed.generations}
    deltas = [*document.retired_deltas, *_deltas(document)]
    fallen: dict[str, object] = {
        "retired_features": tuple(t for t in tables if t.id not in changed.feature_tables),
        "retired_deltas": tuple((name, one) for name, one in deltas if (name, one.id) not in kept),
    }
    return changed.model_copy(update=fallen)


def _next(document: RoutesDocument, now_ms: int) -> dict[str, object]:
    return {"revision": document.revision + 1, "changed_at_ms": now_ms}


def _deltas(document: RoutesDocument) -> list[tuple[str, Generation]]:
    versions = document.versions.items()
    return [(name, delta) for name, found in versions for one in found.generations for delta in one.deltas]


def _as_previous(document: RoutesDocument) -> Previous:
    live = document.live_generation(document.stable)
    return Previous(stable=document.stable, generation=live.id if live else None, features=document.features)


def _as_fallback(document: RoutesDocument, now_ms: int) -> Fallback:
    return Fallback(version=document.stable, since_ms=now_ms, features=document.features)


def _newest(version: Version) -> int:
    return max((generation.computed_at_ms for generation in version.generations), default=0)
