"""Yesterday's set: what the generation in service was chosen to hold."""

from dataclasses import dataclass

import pyarrow as pa

from batch_scoring.files import absolute, dataset
from batch_scoring.publishing.last_live import last_live
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.arrow import HOT_SET
from schemas.names import run_path


@dataclass(frozen=True)
class InService:
    """`table`: of the schema `HOT_SET`; its weights are the requests that were expected."""

    run: Run
    table: pa.Table

    @property
    def names(self) -> list[str]:
        """The most worth first."""
        found: list[str] = self.table["entity"].to_pylist()
        return found

    @property
    def as_of_s(self) -> float:
        return self.run.as_of.timestamp()


def set_in_service(run: Run, settings: BatchSettings) -> InService | None:
    """None where nothing is in service, it knows as much as this run will, or its files are gone."""
    last = last_live(settings, run.model)
    if last is None or last.generation is None:
        return None
    try:
        found = Run.load(f"{absolute(settings.data_url)}/{run_path(run.model, last.generation)}/run.json")
        if found.as_of >= run.as_of:
            return None
        table = dataset(found.place("hotset")).to_table(columns=HOT_SET.names)
    except (Refused, OSError, pa.ArrowException) as fault:
        LOG.warning("%s %s: the set in service cannot be compared with: %s", run.model, run.generation, fault)
        return None
    return InService(found, table.cast(HOT_SET).sort_by([("weight", "descending"), ("entity", "ascending")]))
