"""The measured profile that the settings name, for the jobs that go by it."""

from batch_scoring.runs import LOG, Refused
from batch_scoring.settings import BatchSettings
from schemas.profile import BadProfile, ProfileDocument, read_profile_document


def profile_of(settings: BatchSettings, model: str, version: str) -> ProfileDocument | None:
    """None where none is named, or one of another version. Raises Refused where it cannot be read."""
    if settings.score_profile is None:
        return None
    try:
        found = read_profile_document(settings.score_profile)
    except BadProfile as error:
        raise Refused(f"BATCH_SCORE_PROFILE: {error}") from None
    if (found.model, found.version) != (model, version):
        LOG.info("%s is of %s %s: not used", settings.score_profile, found.model, found.version)
        return None
    return found
