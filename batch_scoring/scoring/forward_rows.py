"""How many rows one forward takes: what the bundle and the settings allow, and no more than pays."""

from batch_scoring.runs import LOG, Refused
from batch_scoring.settings import BatchSettings
from schemas.capacity import knee_rows
from schemas.manifest import Manifest
from schemas.profile import BadProfile, read_profile_document


def forward_rows(settings: BatchSettings, manifest: Manifest) -> int:
    """Rows of a forward; the same in every task and every attempt, as outputs may differ in their last bits.

    Raises:
        Refused: the profile that the settings name cannot be read.
    """
    most = min(settings.score_batch_rows, manifest.max_batch_rows)
    if settings.score_profile is None:
        return most
    try:
        profile = read_profile_document(settings.score_profile)
    except BadProfile as error:
        raise Refused(f"BATCH_SCORE_PROFILE: {error}") from None
    if (profile.model, profile.version) != (manifest.name, manifest.version):
        LOG.info("%s is of %s %s: not used", settings.score_profile, profile.model, profile.version)
        return most
    # Where larger batches stop to pay, or the largest that was measured.
    return min(most, knee_rows(profile.rows, profile.batch_ms) or profile.rows[-1])
