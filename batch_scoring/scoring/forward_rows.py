"""How many rows one forward takes: what the bundle and the settings allow, and no more than pays."""

from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from batch_scoring.runs import LOG, Refused
from batch_scoring.settings import BatchSettings
from schemas.capacity import knee_rows
from schemas.manifest import Manifest


class _Measured(BaseModel):
    rows: int = Field(ge=1)
    batch_ms: float = Field(gt=0, allow_inf_nan=False)


class _Profile(BaseModel):
    """What is read here of the JSON that `python -m online.inference profile` writes."""

    model: str
    version: str
    measured: list[_Measured] = Field(min_length=1)

    @property
    def best_rows(self) -> int:
        """Where larger batches stop to pay, or the largest that was measured. Raises ValueError: sizes twice."""
        points = sorted((point.rows, point.batch_ms) for point in self.measured)
        rows = [size for size, _ in points]
        return knee_rows(rows, [ms for _, ms in points]) or rows[-1]


def forward_rows(settings: BatchSettings, manifest: Manifest) -> int:
    """Rows of a forward; the same in every task and every attempt, as outputs may differ in their last bits.

    Raises:
        Refused: the profile that the settings name cannot be read.
    """
    most = min(settings.score_batch_rows, manifest.max_batch_rows)
    if settings.score_profile is None:
        return most
    profile, best = _read(settings.score_profile)
    if (profile.model, profile.version) != (manifest.name, manifest.version):
        LOG.info("%s is of %s %s: not used", settings.score_profile, profile.model, profile.version)
        return most
    return min(most, best)


def _read(path: Path) -> tuple[_Profile, int]:
    try:
        profile = _Profile.model_validate_json(path.read_bytes())
        return profile, profile.best_rows
    except OSError as error:
        raise Refused(f"BATCH_SCORE_PROFILE: {path}: {error.strerror}") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the document"
        raise Refused(f"BATCH_SCORE_PROFILE: {path}: {where}: {error.errors()[0]['msg']}") from None
    except ValueError as error:
        raise Refused(f"BATCH_SCORE_PROFILE: {path}: {error}") from None
