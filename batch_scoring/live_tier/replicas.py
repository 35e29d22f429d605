"""The replicas of the live tier, as they announce themselves in Redis. Imports no HTTP: the gate reads it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt, ValidationError
from redis import Redis

from batch_scoring.runs import LOG, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import now_ms
from schemas.capacity import BatchTime
from schemas.keys import REPLICAS_KEY

READY = "ready"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bundle that a replica is to have: a version's name alone may stand for another."""

    model: str
    version: str
    digest: str

    @classmethod
    def by(cls, run: Run) -> Self:
        return cls(run.model, run.version, run.bundle_digest)


class _Report(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Measured(_Report):
    """T(b) = tau0_ms + alpha_ms * rows of one bundle; null until it is known."""

    digest: str | None = None
    tau0_ms: NonNegativeFloat | None = None
    alpha_ms: NonNegativeFloat | None = None
    max_batch_rows: PositiveInt | None = None


class ServedVersion(_Measured):
    """A version on one replica; model and version are null until its manifest was read."""

    model: str | None = None
    version: str | None = None
    state: str
    reason: str = ""


class _Profile(_Report):
    versions: tuple[_Measured, ...] = ()


class Replica(_Report):
    """`name`: its field in Redis. `http`: host:port of the public protocol; None of an older replica."""

    name: str = ""
    at_ms: NonNegativeInt
    http: str | None = None
    draining: bool = False
    versions: tuple[ServedVersion, ...] = ()
    profile: _Profile = _Profile()

    def has_warm(self, wanted: Wanted) -> bool:
        return any(one.digest == wanted.digest for one in self._ready(wanted))

    def has_other_bundle(self, wanted: Wanted) -> bool:
        """Whether it serves the version, by its name, from another bundle."""
        return any(one.digest != wanted.digest for one in self._ready(wanted))

    def found(self, wanted: Wanted) -> ServedVersion | None:
        """The bundle, in whichever state it is there."""
        return next((one for one in self.versions if one.digest == wanted.digest), None)

    def batch_time(self, wanted: Wanted) -> tuple[BatchTime, int] | None:
        """T(b) and the largest batch: of its profile where there is one, which was measured at every size; else
        as fitted to the batches of now. None where neither is known.
        """
        for one in (*self.profile.versions, *self.versions):
            if one.digest == wanted.digest and one.tau0_ms is not None and one.alpha_ms is not None:
                time = BatchTime(one.tau0_ms, one.alpha_ms)
                if one.max_batch_rows is not None and time.batch_ms(1) > 0:
                    return time, one.max_batch_rows
        return None

    def max_batch_rows(self, wanted: Wanted) -> int | None:
        served = self.found(wanted)
        return served.max_batch_rows if served else None

    def _ready(self, wanted: Wanted) -> Iterator[ServedVersion]:
        for one in self.versions:
            if (one.model, one.version, one.state) == (wanted.model, wanted.version, READY):
                yield one


def announced_replicas(redis: Redis, settings: BatchSettings) -> list[Replica]:
    """Those that reported lately, by name; a report that cannot be read is left out with a warning."""
    fresh_ms = now_ms(redis) - settings.replica_max_age_s * 1000
    found = []
    for name, raw in redis.hgetall(REPLICAS_KEY).items():
        assert isinstance(name, bytes), "the client decodes nothing"
        try:
            replica = Replica.model_validate_json(raw).model_copy(update={"name": name.decode("utf-8", "replace")})
        except ValidationError as error:
            LOG.warning("the report of replica %r cannot be read: %s", name, error)
            continue
        if replica.at_ms >= fresh_ms:
            found.append(replica)
    return sorted(found, key=lambda replica: replica.name)
