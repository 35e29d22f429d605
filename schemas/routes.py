"""The routes document: the one place that says what is live. Its pure transitions, and its compare-and-set.

Used by all who change it (activation, rollback, retirement) and by the workers that follow it. No I/O: the Lua
text is run by whoever holds a Redis client. Documents are ordered by (epoch, revision); losing Redis starts a
new epoch.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from schemas.codec import MAX_ORDINAL
from schemas.manifest import ModelName, Sha256, VersionName
from schemas.names import interval_of

Ordinal = Annotated[int, Field(ge=1, le=MAX_ORDINAL)]
MAX_HISTORY = 200


class RefusedTransition(ValueError):
    """The change is not allowed from the present state; the message says why."""


class _Document(BaseModel):
    # Unknown fields are kept out of older workers' way: a newer writer may add some.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Generation(_Document):
    """One complete precomputed set: how to find and read it."""

    id: str
    ordinal: Ordinal
    buckets: PositiveInt
    codec: PositiveInt
    rows: NonNegativeInt
    computed_at_ms: NonNegativeInt
    deltas: tuple["Generation", ...] = ()


class FeatureTable(_Document):
    """The online feature table of a night; `snapshot_url` is the same rows as a file, for a life without Redis."""

    id: str
    buckets: PositiveInt
    features: tuple[str, ...]
    rows: NonNegativeInt
    as_of_ms: NonNegativeInt
    snapshot_url: str | None = None


class Version(_Document):
    """A routed version: its bundle, and its generations, newest first."""

    ordinal: Ordinal
    bundle_url: str
    bundle_digest: Sha256
    generations: tuple[Generation, ...] = ()


class Arm(_Document):
    """One arm of an experiment: `share` of the entities is answered by `version`."""

    name: str
    version: VersionName
    share: Annotated[float, Field(ge=0, le=1)]


class Experiment(_Document):
    id: str
    salt: str
    arms: tuple[Arm, ...]


class Previous(_Document):
    """What was live before the last activation, for rollback."""

    stable: VersionName
    generation: str | None
    features: FeatureTable | None


class RoutesDocument(_Document):
    """`hs:{m}:routes`: for each version its bundle and generations, and who is answered by which.

    `next_ordinal` is what the next generation or version gets. `retired_features` are feature tables that are
    loaded though no longer live or previous: the next retirement deletes them.
    """

    format: Literal[1] = 1
    model: ModelName
    epoch: PositiveInt
    revision: PositiveInt
    stable: VersionName
    versions: dict[str, Version]
    next_ordinal: Ordinal = 1
    features: FeatureTable | None = None
    retired_features: tuple[FeatureTable, ...] = ()
    experiment: Experiment | None = None
    shadow: VersionName | None = None
    cascade: tuple[VersionName, ...] = ()
    token: NonNegativeInt = 0
    interval: str | None = None
    previous: Previous | None = None
    changed_at_ms: NonNegativeInt = 0

    @model_validator(mode="after")
    def _routed_versions_exist(self) -> Self:
        if missing := self.routed_versions - self.versions.keys():
            raise ValueError(f"routes name versions the document does not hold: {sorted(missing)}")
        return self

    @property
    def routed_versions(self) -> frozenset[str]:
        """The versions that answer somebody: stable, arms of the experiment, shadow, cascade."""
        arms = self.experiment.arms if self.experiment else ()
        shadow = (self.shadow,) if self.shadow else ()
        return frozenset((self.stable, *self.cascade, *shadow, *(arm.version for arm in arms)))

    @property
    def order(self) -> tuple[int, int]:
        return self.epoch, self.revision

    def live_generation(self, version: str) -> Generation | None:
        """The newest generation of a version, or None where nothing is precomputed for it."""
        found = self.versions.get(version)
        return found.generations[0] if found and found.generations else None


class Activation(_Document):
    """What a finished run offers: a generation of a version, with the features it was computed from."""

    model: ModelName
    version: VersionName
    bundle_url: str
    bundle_digest: Sha256
    generation: Generation
    features: FeatureTable | None
    token: PositiveInt


def first_document(offer: Activation, now_ms: int) -> RoutesDocument:
    """The document of a Redis that has none: a new epoch that begins at `now_ms` of Redis's clock."""
    version = Version(
        ordinal=1, bundle_url=offer.bundle_url, bundle_digest=offer.bundle_digest, generations=(offer.generation,)
    )
    return RoutesDocument(
        model=offer.model,
        epoch=now_ms,
        revision=1,
        stable=offer.version,
        versions={offer.version: version},
        next_ordinal=_after(max(1, offer.generation.ordinal)),
        features=offer.features,
        token=offer.token,
        interval=interval_of(offer.generation.id),
        changed_at_ms=now_ms,
    )


def activate(document: RoutesDocument, offer: Activation, now_ms: int) -> RoutesDocument:
    """Makes the offered generation the newest of its version, and that version stable.

    Activating what is already live gives the same state under a new revision.

    Raises:
        RefusedTransition: an older run token, an older interval, or the version's name with another bundle.
    """
    interval = interval_of(offer.generation.id)
    if offer.token < document.token:
        raise RefusedTransition(
            f"run token {offer.token} is older than {document.token}: a newer run has activated"
        )
    if document.interval is not None and interval < document.interval:
        raise RefusedTransition(f"interval {interval} is older than {document.interval}, which is live")
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
    live = document.live_generation(document.stable)
    is_repeat = document.stable == offer.version and live is not None and live.id == offer.generation.id
    return document.model_copy(
        update={
            "revision": document.revision + 1,
            "stable": offer.version,
            "versions": {**document.versions, offer.version: version},
            "next_ordinal": document.next_ordinal
            if is_repeat
            else _after(max(document.next_ordinal, offer.generation.ordinal)),
            "features": offer.features or document.features,
            "token": offer.token,
            "interval": interval,
            "retired_features": document.retired_features
            if is_repeat
            else _retired_features(document, offer.features),
            "previous": document.previous if is_repeat else _as_previous(document),
            "changed_at_ms": now_ms,
        }
    )


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
    return document.model_copy(
        update={
            "revision": document.revision + 1,
            "stable": previous.stable,
            "versions": {
                **document.versions,
                previous.stable: version.model_copy(update={"generations": (*chosen, *rest)}),
            },
            "features": previous.features or document.features,
            "previous": _as_previous(document),
            "changed_at_ms": now_ms,
        }
    )


class Retired(_Document):
    """What nobody is routed to any more: (version, generation) pairs, and feature tables."""

    generations: tuple[tuple[str, Generation], ...] = ()
    features: tuple[FeatureTable, ...] = ()
    versions: tuple[str, ...] = ()


def retire(
    document: RoutesDocument, keep_generations: int, keep_versions: int, now_ms: int
) -> tuple[RoutesDocument, Retired]:
    """Takes generations and versions beyond the given numbers out of the document.

    What is live, previous or named by an experiment, shadow or cascade always stays.
    """
    pinned = document.routed_versions | ({document.previous.stable} if document.previous else set())
    by_age = sorted(document.versions, key=lambda name: _newest(document.versions[name]), reverse=True)
    kept = [name for place, name in enumerate(by_age) if name in pinned or place < keep_versions]
    gone: list[tuple[str, Generation]] = []
    versions: dict[str, Version] = {}
    previous_id = document.previous.generation if document.previous else None
    for name in document.versions:
        found = document.versions[name]
        stay = tuple(
            g
            for place, g in enumerate(found.generations)
            if name in kept and (place < keep_generations or g.id == previous_id)
        )
        gone += [(name, g) for g in found.generations if g not in stay]
        if name in kept:
            versions[name] = found.model_copy(update={"generations": stay})
    dropped = tuple(name for name in document.versions if name not in versions)
    retired = Retired(generations=tuple(gone), features=document.retired_features, versions=dropped)
    if retired == Retired():
        return document, retired
    update = {"revision": document.revision + 1, "versions": versions, "retired_features": ()}
    return document.model_copy(update={**update, "changed_at_ms": now_ms}), retired


def _as_previous(document: RoutesDocument) -> Previous:
    live = document.live_generation(document.stable)
    return Previous(stable=document.stable, generation=live.id if live else None, features=document.features)


def _retired_features(document: RoutesDocument, offered: FeatureTable | None) -> tuple[FeatureTable, ...]:
    """The loaded tables that nothing refers to once the document's live table becomes the previous one."""
    fallen = document.previous.features if document.previous else None
    kept = {table.id for table in (document.features, offered) if table}
    tables = (*document.retired_features, *((fallen,) if fallen else ()))
    return tuple(table for table in tables if table.id not in kept)


def _newest(version: Version) -> int:
    return max((generation.computed_at_ms for generation in version.generations), default=0)


def _after(ordinal: int) -> int:
    """The next ordinal; they wrap long before two generations that are kept could share one."""
    return ordinal % MAX_ORDINAL + 1


# KEYS: routes, run, history (one slot). ARGV: expected epoch and revision ("0", "0" for none), the new document,
# a line of history, its bound, the run token ("" where the change carries none), the channel.
# Returns "ok", or {"conflict", the document found} or {"token", the token found}.
COMPARE_AND_SET_LUA = """
local found = redis.call('GET', KEYS[1])
local epoch, revision = 0, 0
if found then
  local document = cjson.decode(found)
  epoch, revision = document['epoch'], document['revision']
end
if epoch ~= tonumber(ARGV[1]) or revision ~= tonumber(ARGV[2]) then
  return {'conflict', found or ''}
end
if ARGV[6] ~= '' then
  local token = redis.call('GET', KEYS[2]) or ''
  if token ~= ARGV[6] then return {'token', token} end
end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('LPUSH', KEYS[3], ARGV[4])
redis.call('LTRIM', KEYS[3], 0, tonumber(ARGV[5]) - 1)
redis.call('PUBLISH', ARGV[7], ARGV[3])
return {'ok', ''}
"""
