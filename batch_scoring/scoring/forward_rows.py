"""How many rows one forward takes: what the bundle and the settings allow, and no more than pays."""

from batch_scoring.measured_profile import profile_of
from batch_scoring.settings import BatchSettings
from schemas.capacity import knee_rows
from schemas.manifest import Manifest


def forward_rows(settings: BatchSettings, manifest: Manifest) -> int:
    """Rows of a forward; the same in every task and every attempt, as outputs may differ in their last bits.

    Raises:
        Refused: the profile that the settings name cannot be read.
    """
    most = min(settings.score_batch_rows, manifest.max_batch_rows)
    profile = profile_of(settings, manifest.name, manifest.version)
    if profile is None:
        return most
    # Where larger batches stop to pay, or the largest that was measured.
    return min(most, knee_rows(profile.rows, profile.batch_ms) or profile.rows[-1])
