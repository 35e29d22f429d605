"""The routes document: the one place that says what is live; and the text of its compare-and-set.

Used by all who change it, by the transitions of `schemas.transitions`, and by the workers that follow it. No I/O:
the Lua text is run by whoever holds a Redis client. Documents are ordered by (epoch, revision); losing Redis
starts a new epoch.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from schemas.codec import MAX_ORDINAL
from schemas.manifest import ModelName, Sha256, VersionName

Ordinal = Annotated[int, Field(ge=1, le=MAX_ORDINAL)]
MAX_HISTORY = 200


class _Document(BaseModel):
    # Unknown fields are kept out of older workers' way: a newer writer may add some.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Generation(_Document):
    """One complete precomputed set: how to find and read it. `deltas` patch it: what they hold is newer."""

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


class Fallback(_Document):
    """The version that was stable before the present one: kept ready, since a model must be able to go back.

    Attributes:
        since_ms: when it was replaced, by Redis's clock.
        features: the table that its newest generation was computed from.
    """

    version: VersionName
    since_ms: NonNegativeInt
    features: FeatureTable | None


class RoutesDocument(_Document):
    """`hs:{m}:routes`: for each version its bundle and generations, and who is answered by which.

    `next_ordinal` is what the next generation or version gets. `retired_features` and `retired_deltas` are loaded
    though nothing refers to them any more: the next retirement deletes them.
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
    retired_deltas: tuple[tuple[VersionName, Generation], ...] = ()
    experiment: Experiment | None = None
    shadow: VersionName | None = None
    cascade: tuple[VersionName, ...] = ()
    token: NonNegativeInt = 0
    interval: str | None = None
    previous: Previous | None = None
    fallback: Fallback | None = None
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

    @property
    def feature_tables(self) -> dict[str, FeatureTable]:
        """Those that something refers to, by id."""
        found = [one.features for one in (self, self.previous, self.fallback) if one is not None]
        return {table.id: table for table in found if table is not None}

    @property
    def generations(self) -> list[tuple[str, Generation]]:
        """(version, generation) of all that the document holds, deltas among them."""
        bases = [(name, one) for name, version in self.versions.items() for one in version.generations]
        return bases + [(name, delta) for name, one in bases for delta in one.deltas]

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
