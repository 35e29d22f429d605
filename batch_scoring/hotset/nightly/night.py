"""What one night's choice goes by."""

from dataclasses import dataclass
from datetime import datetime
from math import ceil

from batch_scoring.hotset.log_files import LogFiles
from batch_scoring.hotset.nightly.given import Given
from batch_scoring.hotset.nightly.in_service import InService
from batch_scoring.hotset.nightly.log_rows import RowFacts
from batch_scoring.runs import Run
from batch_scoring.settings import BatchSettings


@dataclass(frozen=True)
class Night:
    """
    Attributes:
        begin: of the history that is looked at; it ends at the run's `as_of`.
        mandatory: of the list, those with features.
    """

    run: Run
    settings: BatchSettings
    given: Given
    files: LogFiles
    rows: RowFacts
    begin: datetime
    in_service: InService | None
    mandatory: tuple[str, ...]

    @property
    def as_of_s(self) -> float:
        return self.run.as_of.timestamp()

    @property
    def past(self) -> int:
        """Windows between refreshes, of the history, since the first request; at least one."""
        span_s = 0.0 if self.rows.first_s is None else self.as_of_s - self.rows.first_s
        return min(self.given.history, max(1, ceil(span_s / self.given.refresh_s)))
