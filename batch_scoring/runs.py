"""A night on disk: `run.json`, which fixes what every step works on, and a report for each finished step.

Steps are given the run's address only. A Spark step whose report is there, and whose results still are, is done:
running it again does nothing.
"""

import logging
import os
import pwd
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PositiveInt

from batch_scoring.files import read_json, remove, write_json
from batch_scoring.settings import BatchSettings
from schemas.manifest import ModelName, Sha256, VersionName
from schemas.routes import Ordinal
from schemas.run_folders import refusal_file

LOG = logging.getLogger("batch_scoring")


class Refused(Exception):
    """The step cannot do what was asked, and doing it again would not help; the message says why.

    Attributes:
        numbers: what it was decided by, for whoever reads the run's folder.
    """

    def __init__(self, message: str, numbers: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.numbers = dict(numbers or {})


class Role(StrEnum):
    """What a run is for.

    STABLE is a refresh of the version in service, or the first night. PREVIOUS rescores the version before it, so
    that a rollback finds a fresh generation. NEW is to replace the version in service. DELTA patches the live
    generation with the entities whose features have changed since.
    """

    STABLE = "stable"
    PREVIOUS = "previous"
    NEW = "new"
    DELTA = "delta"


class Run(BaseModel):
    """One run of a night.

    Attributes:
        started_at_ms: by Redis's clock: the time of computation of its results.
        token: of its last beginning: of two runs, the one with the higher token is newer.
        base: the generation that a delta patches.
        url: where `run.json` lies; not part of it, so that a data root may be moved.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelName
    version: VersionName
    bundle_url: str
    bundle_digest: Sha256
    as_of: AwareDatetime
    generation: str
    ordinal: Ordinal
    started_at_ms: PositiveInt
    run_key: str
    token: PositiveInt
    role: Role
    base: str | None = None
    url: str = Field(exclude=True)

    @classmethod
    def load(cls, url: str) -> Self:
        """Raises Refused where there is no such run."""
        try:
            document = read_json(url)
            if document is None:
                raise Refused(f"{url} does not exist: `begin` makes it and prints its address")
            return cls.model_validate({**document, "url": url})
        except ValueError as error:
            raise Refused(f"{url} is no run: {error}") from None

    def save(self) -> None:
        write_json(self.url, self.model_dump(mode="json"))

    def place(self, name: str) -> str:
        """The address of a file or folder of this run."""
        return f"{self.url.rpartition('/')[0]}/{name}"

    def report(self, step: str) -> dict[str, object] | None:
        """What a finished step said, or None where it has not finished."""
        return read_json(self.place(f"report-{step}.json"))

    def need_report(self, step: str) -> dict[str, object]:
        """As `report`. Raises Refused where that step has not finished."""
        found = self.report(step)
        if found is None:
            raise Refused(f"{step} of {self.generation} has not finished: run it first")
        return found

    def count(self, step: str, name: str) -> int:
        """A number that a finished step reported. Raises Refused where it has not finished."""
        found = self.need_report(step)[name]
        assert isinstance(found, int), f"{name} of report-{step}.json is a count"
        return found

    def finish(self, step: str, report: dict[str, object]) -> None:
        write_json(self.place(f"report-{step}.json"), {**report, "step": step, "finished_at": utc_now()})
        remove(self.place(refusal_file(step)))

    def refuse(self, step: str, refusal: Refused) -> None:
        """Keeps why a step was refused, until it finishes."""
        kept = {"reason": str(refusal), "step": step, "refused_at": utc_now()}
        write_json(self.place(refusal_file(step)), {**refusal.numbers, **kept})

    def forget(self, step: str) -> None:
        """What a step did no longer holds: the next call does it again."""
        remove(self.place(f"report-{step}.json"))


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def this_user() -> str:
    """`user@host` of this process, by the system's account and not by the environment."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user need not have an account
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


@contextmanager
def stage(run: Run, what: str) -> Iterator[dict[str, object]]:
    """Logs the beginning and the end of a stage; what is put into the dictionary is logged with the end."""
    began = time.monotonic()
    LOG.info("%s %s: %s ...", run.model, run.generation, what)
    facts: dict[str, object] = {}
    yield facts
    said = ", ".join(f"{name} {value}" for name, value in facts.items())
    LOG.info(
        "%s %s: %s done in %.1f s%s",
        run.model,
        run.generation,
        what,
        time.monotonic() - began,
        said and f": {said}",
    )


def check_rejects(rejected: int, rows: int, settings: BatchSettings, what: str) -> None:
    """Raises Refused where more than the allowed share was rejected."""
    if rows and rejected / rows > settings.max_reject_share:
        raise Refused(
            f"{rejected:,} of {rows:,} {what} were rejected, more than the {settings.max_reject_share:.1%} that"
            " BATCH_MAX_REJECT_SHARE allows: the reasons are in the run's rejects"
        )
