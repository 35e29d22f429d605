"""Reading the JSON that `python -m online.inference profile` writes."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from online.planning.batching import Fit, MeasuredMs, fit
from online.planning.checks import OutOfRange
from online.planning.outside import NOTHING, Outside
from online.planning.replica import Replica
from schemas.capacity import knee_rows
from schemas.profile import BadProfile, ProfileDocument, read_profile_document


class BadFile(ValueError):
    """A file that cannot be planned with; the message names it, and what is wrong."""


@dataclass(frozen=True)
class Profile:
    """T(b) of one version on one device, at the measured sizes, ascending."""

    model: str
    version: str
    device: str
    device_name: str
    threads: int
    overruns: int
    rows: tuple[int, ...]
    batch_ms: tuple[float, ...]

    @cached_property
    def fit(self) -> Fit:
        """Raises OutOfRange where there are under four sizes."""
        return fit(self.rows, self.batch_ms)

    @property
    def knee(self) -> int | None:
        return knee_rows(self.rows, self.batch_ms)

    @property
    def is_emulated(self) -> bool:
        return self.device.startswith("emulated")

    def replica(
        self, price_per_hour: float, outside: Outside = NOTHING, max_batch_rows: int | None = None
    ) -> Replica:
        """With the line where it fits, else with the measured sizes; `max_batch_rows` up to the largest measured.

        Raises:
            OutOfRange: names the field.
        """
        largest = self.rows[-1]
        if max_batch_rows is not None and not 1 <= max_batch_rows <= largest:
            raise OutOfRange("max_batch_rows", max_batch_rows, f"from 1 to {largest}, the largest batch measured")
        measured = None if self.fit.is_linear else MeasuredMs(self.rows, self.batch_ms)
        # Where throughput still grows at the largest batch, that one is as far as it is known to.
        knee = self.knee or largest
        return Replica(self.fit.time, max_batch_rows or largest, price_per_hour, knee, outside, measured)


def read_profile(path: Path) -> Profile:
    """Raises BadFile."""
    try:
        document = read_profile_document(path)
    except BadProfile as error:
        raise BadFile(str(error)) from None
    return profile_of(document)


def profile_of(document: ProfileDocument) -> Profile:
    return Profile(
        document.model,
        document.version,
        document.device,
        document.device_name,
        document.threads,
        document.overruns,
        tuple(document.rows),
        tuple(document.batch_ms),
    )
