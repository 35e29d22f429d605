"""What a scoring task is given and what it gives back, both small enough to travel with each task."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """The same for all tasks of a run.

    The bundle is named, not its copy: a worker on another machine fetches and checks its own.

    Attributes:
        work_url: folder of this attempt of the step, for whatever its tasks leave each other.
        forward_rows: of one call of the model.
        block_bytes: of features that are in Python at a time, about.
        buckets, parts: of the score files.
    """

    bundle_url: str
    digest: str
    cache_dir: str
    allowed_urls: tuple[str, ...]
    device: str
    work_url: str
    forward_rows: int
    block_bytes: int
    buckets: int
    parts: int
    ordinal: int
    computed_at_ms: int


class RowGroup(NamedTuple):
    """A row group of a feature file."""

    url: str
    number: int


class Split(NamedTuple):
    """What one task reads. `rows`: of features, hot or not."""

    rows: int
    groups: tuple[RowGroup, ...]


class Scored(NamedTuple):
    """What one task scored.

    Only files that are named here count: those of an attempt that was killed, or that came second, do not.

    Attributes:
        files: in the work folder, with a batch for each part of the score files.
        rejects: a file in the work folder, or None where no row was rejected.
        load: which loading of the model it ran on.
    """

    files: tuple[str, ...]
    rows: int
    rejects: str | None
    rejected: int
    load: str
