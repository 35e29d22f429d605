"""What a replica of the live tier says of itself in `hs:replicas`, as gate, loading and site read it."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt

from schemas.capacity import BatchTime

READY = "ready"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bundle that a replica is to have: a version's name alone may stand for another."""

    model: str
    version: str
    digest: str


class _Report(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class MeasuredVersion(_Report):
    """T(b) = tau0_ms + alpha_ms * rows of one bundle; null until it is known."""

    digest: str | None = None
    tau0_ms: NonNegativeFloat | None = None
    alpha_ms: NonNegativeFloat | None = None
    max_batch_rows: PositiveInt | None = None

    @property
    def batch_time(self) -> tuple[BatchTime, int] | None:
        """T(b) and the largest batch; None while they are not known."""
        if self.tau0_ms is None or self.alpha_ms is None or self.max_batch_rows is None:
            return None
        time = BatchTime(self.tau0_ms, self.alpha_ms)
        return (time, self.max_batch_rows) if time.batch_ms(1) > 0 else None


class ServedVersion(MeasuredVersion):
    """A version on one replica; model and version are null until its manifest was read."""

    model: str | None = None
    version: str | None = None
    device: str | None = None
    state: str = ""
    reason: str = ""


class _Profile(_Report):
    versions: tuple[MeasuredVersion, ...] = ()


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
            if one.digest == wanted.digest and (found := one.batch_time):
                return found
        return None

    def max_batch_rows(self, wanted: Wanted) -> int | None:
        served = self.found(wanted)
        return served.max_batch_rows if served else None

    def _ready(self, wanted: Wanted) -> Iterator[ServedVersion]:
        for one in self.versions:
            if (one.model, one.version, one.state) == (wanted.model, wanted.version, READY):
                yield one
