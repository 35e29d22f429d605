"""What was in service last, as a file beside the runs: for the day on which Redis has lost its routes document.

Without it, the next night would begin with the first version that the schedule names, whatever came after it.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, PositiveInt

from batch_scoring.files import read_json, write_json
from batch_scoring.runs import LOG
from batch_scoring.settings import BatchSettings
from schemas.manifest import Sha256, VersionName
from schemas.names import runs_path
from schemas.routes import RoutesDocument


class LastLive(BaseModel):
    """`live.json`. `order`: epoch and revision of the document that it was taken from."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: VersionName
    bundle_url: str
    bundle_digest: Sha256
    generation: str | None
    order: tuple[PositiveInt, PositiveInt]

    @classmethod
    def of(cls, document: RoutesDocument) -> Self:
        stable, live = document.versions[document.stable], document.live_generation(document.stable)
        return cls(
            version=document.stable,
            bundle_url=stable.bundle_url,
            bundle_digest=stable.bundle_digest,
            generation=live.id if live else None,
            order=document.order,
        )


def remember(settings: BatchSettings, document: RoutesDocument) -> None:
    """Keeps what the document says, unless a later one is kept. That it cannot be kept is a warning only."""
    now = LastLive.of(document)
    try:
        kept = last_live(settings, document.model)
        if kept is None or kept.order < now.order:
            write_json(_url(settings, document.model), now.model_dump(mode="json"))
    except OSError as error:
        LOG.warning("what is in service could not be kept beside the runs: %s", error)


def last_live(settings: BatchSettings, model: str) -> LastLive | None:
    """None where nothing has been, or it cannot be read."""
    try:
        found = read_json(_url(settings, model))
        return None if found is None else LastLive.model_validate(found)
    except ValueError as error:
        LOG.warning("%s cannot be read: %s", _url(settings, model), error)
        return None


def _url(settings: BatchSettings, model: str) -> str:
    return f"{settings.data_url.rstrip('/')}/{runs_path(model)}/live.json"
